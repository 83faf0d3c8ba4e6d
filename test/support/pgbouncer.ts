/** Runs a real PgBouncer in front of a PostgreSQL server: each transaction may use a different connection to the server. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { dataFolder, freePort } from './postgres.ts';

const { error, stdout } = spawnSync('pgbouncer', ['--version'], { encoding: 'utf8' });

/** Why PgBouncer is not available; undefined if it is. */
export const missingPgbouncer = error && 'pgbouncer is not installed';

/** Turns off prepared statements. Releases before 1.21 support none and reject the setting. */
const keepNothing = /^PgBouncer 1\.(1\d|20)\./.test(stdout) ? '' : 'max_prepared_statements = 0';

/** Starts PgBouncer, in transaction mode without prepared statements, for the server of `databaseUrl`. Returns the URL through it. */
export async function startPgbouncer(
  databaseUrl: string,
  connections: number,
  mode: 'transaction' | 'session' = 'transaction',
): Promise<string> {
  const { hostname, port, username } = new URL(databaseUrl);
  const folder = dataFolder();
  const { uid, gid } = fs.statSync(folder);
  const own = await freePort();
  const file = path.join(folder, 'pgbouncer.ini');
  const settings = [
    ...['[databases]', `* = host=${hostname} port=${port} user=${username}`, '[pgbouncer]'],
    ...['listen_addr = 127.0.0.1', `listen_port = ${own}`, 'unix_socket_dir =', 'auth_type = any'],
    ...[`pool_mode = ${mode}`, `default_pool_size = ${connections}`, keepNothing],
  ];
  fs.writeFileSync(file, `${settings.join('\n')}\n`);
  const child = spawn('pgbouncer', [file], { uid, gid, stdio: ['ignore', 'ignore', 'pipe'] });
  const exit = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exit;
    fs.rmSync(folder, { recursive: true, force: true });
  });
  await new Promise<void>((resolve, reject) => {
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      log += text;
      if (log.includes('process up')) resolve();
    });
    child.once('exit', () => reject(new Error(`pgbouncer exited\n${log}`)));
  });
  return databaseUrl.replace(`:${port}/`, `:${own}/`);
}
