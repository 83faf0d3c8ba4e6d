/** Another program that has an SQLite file open: a process of its own, since SQLite's locks are between processes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { projectFolder } from './project.ts';

const program = `
  import Database from 'better-sqlite3';
  const database = new Database(process.argv[1], JSON.parse(process.argv[2]));
  process.on('message', (sql) => {
    try {
      if (sql === 'close') database.close();
      const statement = sql === 'close' ? undefined : database.prepare(sql);
      process.send(statement?.reader ? statement.raw().all().flat() : (statement?.run(), []));
    } catch (error) {
      process.send(error.code);
    }
  });
  process.send('open');
`;

/** Opens the file, and runs no statement yet. */
export async function openElsewhere(file: string, options: object = {}) {
  const args = ['--input-type=module', '-e', program, file, JSON.stringify(options)];
  const child = spawn(process.execPath, args, { cwd: projectFolder, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const exit = once(child, 'exit');
  const kill = async () => {
    child.kill('SIGKILL');
    await exit;
  };
  onTestFinished(kill);
  await once(child, 'message');
  return {
    /** Resolves to the values of all rows, or to the code of SQLite's error. `close` closes the file. */
    async run(sql: string): Promise<unknown> {
      const answer = once(child, 'message');
      child.send(sql);
      return (await answer)[0];
    },
    kill,
  };
}
