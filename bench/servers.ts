/** Starts the servers under load, each on a store of its own with the same animals, and PostgreSQL on disk, with fsync. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import postgres from 'postgres';
import { newSecret, scopes } from '../src/core/accounts.ts';
import { openStore } from '../src/store/open.ts';
import * as testPostgres from '../test/support/postgres.ts';
import { nodeOptions, projectFolder } from '../test/support/project.ts';

/** Pins a program to a core: the servers to 0, their clients to 1. */
export const onCore = (core: 0 | 1, command: string[]): [string, string[]] => [
  'taskset',
  ['-c', `${core}`, ...command],
];

export interface Running {
  name: string;
  port: number;
  /** An API key. */
  key: string;
  /** Animals in its store. */
  rows: number;
  pid: number;
  /** Time from the start of the process to its first response, in milliseconds. */
  startMs: number;
  /** Processor time of the process so far, user and system, in microseconds. */
  usedUs: () => number;
  /** Memory of the process now, in MiB. */
  memoryMiB: () => number;
  stop: () => Promise<void>;
}

export const baseRows = 10_000;
const firstPort = 4101;

/** The folder that `npm start` names. */
const compileCache = `${projectFolder}node_modules/.cache/animal-store`;

const children: ChildProcess[] = [];
process.on('exit', () => {
  for (const child of children) child.kill();
});

/** Starts a Node program on the servers' core, and waits for its first response. `log`: the file for its output. */
async function start(
  args: string[],
  log: string,
  env: Record<string, string>,
): Promise<Omit<Running, 'name' | 'key' | 'rows'>> {
  const port = Number(env.PORT);
  const begun = performance.now();
  const output = openSync(log, 'a');
  const child = spawn(...onCore(0, [process.execPath, ...args]), {
    cwd: path.dirname(log),
    env: { PATH: process.env.PATH, NODE_ENV: 'production', NODE_COMPILE_CACHE: compileCache, ...env },
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  children.push(child);
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}/v1/pets/1`).then(
      (response) => response.arrayBuffer().then(() => true),
      () => false,
    );
  while (!(await isUp())) {
    if (child.exitCode !== null) throw new Error(`${args.join(' ')} ended:\n${readFileSync(log, 'utf8')}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const inProc = (file: string) => readFileSync(`/proc/${child.pid}/${file}`, 'utf8');
  return {
    port,
    pid: child.pid as number,
    startMs: performance.now() - begun,
    usedUs() {
      // The fields after the name, in ticks of 10 ms: proc_pid_stat(5).
      const fields = inProc('stat').split(') ')[1]?.split(' ') ?? [];
      return (Number(fields[11]) + Number(fields[12])) * 10_000;
    },
    // Resident pages of 4 KiB.
    memoryMiB: () => Number(inProc('statm').split(' ')[1]) / 256,
    async stop() {
      if (child.exitCode !== null) return;
      child.kill();
      await once(child, 'exit');
    },
  };
}

/** Creates a store with `rows` animals, which alternate between the statuses. Returns an API key. */
async function seed(url: string, rows: number): Promise<string> {
  const store = await openStore(url, { now: () => new Date() });
  const secret = newSecret(false);
  await store.accounts.addAccount('bench');
  await store.accounts.addKey({ account: 'bench', name: 'bench', scopes: [...scopes], lifetimeMs: null, secret });
  await store.close();
  const insert = `INSERT INTO pet (id, name, category_id, status)
    SELECT i, 'pet ' || i, i % 100, CASE i % 3 WHEN 0 THEN 'available' WHEN 1 THEN 'pending' ELSE 'sold' END FROM`;
  if (url.startsWith('sqlite:')) {
    const database = new Database(url.slice('sqlite:'.length));
    database.pragma('synchronous = OFF');
    const numbers = 'WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?)';
    database.prepare(`${numbers} ${insert} n`).run(rows);
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.close();
  } else {
    const sql = postgres(url, { max: 1 });
    await sql.unsafe(`${insert} generate_series(1, ${rows}) AS i`);
    // Then the planner knows the table.
    await sql`VACUUM ANALYZE pet`;
    await sql.end();
  }
  return secret.key;
}

/** Starts PostgreSQL, not pinned to a core, and returns a function that creates a database and returns its URL. */
async function startPostgres() {
  const data = testPostgres.dataFolder();
  testPostgres.initialize(data, []);
  const server = await testPostgres.start(data);
  async function stop() {
    await server.kill();
    rmSync(data, { recursive: true, force: true });
  }
  // Stop it even if the run fails.
  process.once('exit', stop);
  async function create(name: string) {
    const administrator = postgres(server.url('postgres'), { max: 1 });
    await administrator`CREATE DATABASE ${administrator(name)}`;
    await administrator.end();
    return server.url(name);
  }
  return { create, stop };
}

/**
 * Starts the servers on new stores in `folder`. The animal store is the last one, and is started as in production, with JSON logs at info in a file
 * next to the store. Above 10,000 animals it is compared with itself, otherwise with the floor and plain Fastify.
 */
export async function startServers(rows: number, engine: string | undefined, folder: string) {
  const database = engine === 'postgres' ? await startPostgres() : undefined;
  const servers: Running[] = [];
  async function add(name: string, program: string[], holds = rows, isOnPostgres = database !== undefined) {
    const port = firstPort + servers.length;
    const file = path.join(folder, `${port}.db`);
    const url = isOnPostgres && database ? await database.create(`animals${port}`) : `sqlite:${file}`;
    const key = await seed(url, holds);
    const env = { KEY: key, DATABASE_URL: url, PORT: String(port), OPS_PORT: 'off' };
    servers.push({ name, key, rows: holds, ...(await start(program, `${file}.log`, env)) });
  }
  const ofBench = (name: string) => [path.join(import.meta.dirname, name)];
  const store = [...nodeOptions, `${projectFolder}src/main.ts`];
  if (rows > baseRows) await add(`${baseRows} animals`, store, baseRows);
  else {
    await add('floor', ofBench('floor.ts'), rows, false);
    await add('plain Fastify', ofBench('plain.ts'));
    if (database) await add('store on SQLite', store, rows, false);
  }
  await add(rows > baseRows ? `${rows} animals` : 'animal store', store);
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await database?.stop();
  };
  return { servers, stop };
}
