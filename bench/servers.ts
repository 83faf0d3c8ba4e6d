/** Starts the programs under load, each on a core, and makes their stores: SQLite, or PostgreSQL on disk with fsync. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import postgres from 'postgres';
import { newSecret, scopes } from '../src/core/accounts.ts';
import { openStore } from '../src/store/open.ts';
import type { Answers, Task } from '../test/support/open-loop.ts';
import * as testPostgres from '../test/support/postgres.ts';
import { nodeOptions, projectFolder } from '../test/support/project.ts';

/** The command that starts the animal store of a checkout as `npm start` does. */
export const storeOf = (source: string) => [process.execPath, ...nodeOptions, `${source}/src/main.ts`];

/** Runs a program on the clients' core, and resolves to what it prints. */
export async function runClient(...command: string[]): Promise<string> {
  return (await promisify(execFile)('taskset', ['-c', '1', ...command])).stdout;
}

const host = 'animals.example.com';

/** A request of the client of constant rate, with an API key. */
export function requestOf(line: string, body = '', header = 'Authorization: Bearer {key}', type = 'json'): string {
  const described = body && `\r\nContent-Type: application/${type}\r\nContent-Length: ${body.length}`;
  return `${line} HTTP/1.1\r\nHost: ${host}\r\n${header}${described}\r\n\r\n${body}`;
}
export const create = requestOf('POST /v1/pets', '{"name":"Biscuit","categoryId":7}');

/** Runs the client of constant rate. By default it sends without a rate, on 250 connections from as many addresses. */
export async function runOpenLoop(
  task: Pick<Task, 'port' | 'request' | 'keys' | 'seconds'> & Partial<Task>,
): Promise<Answers> {
  const all = { addresses: 250, network: 1, connections: 250, rate: 0, ...task };
  return JSON.parse(
    await runClient(process.execPath, `${projectFolder}test/support/open-loop.ts`, JSON.stringify(all)),
  );
}

/** Starts a program on core 0 or 1, and waits for its first response. `log`: the file for its output. */
export async function start(core: 0 | 1, command: string[], port: number, log: string, env = {}) {
  const begun = performance.now();
  const output = openSync(log, 'a');
  const child = spawn('taskset', ['-c', `${core}`, ...command], {
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      PORT: `${port}`,
      OPS_PORT: 'off',
      ALLOWED_HOSTS: host,
      ...env,
    },
    stdio: ['ignore', output, output],
  });
  // Also if this process fails.
  process.on('exit', () => child.kill());
  const ask = async () => (await fetch(`http://127.0.0.1:${port}/v1/pets/1`)).text();
  while ((await ask().catch(() => undefined)) === undefined) {
    if (child.exitCode !== null) throw new Error(readFileSync(log, 'utf8'));
    await sleep(5);
  }
  const fieldOf = (file: string, at: number) =>
    Number(readFileSync(`/proc/${child.pid}/${file}`, 'utf8').split(' ')[at]);
  return {
    port,
    startMs: performance.now() - begun,
    pid: child.pid as number,
    /** Processor time so far, user and system, in microseconds: ticks of 10 ms (proc_pid_stat(5)). */
    usedUs: () => (fieldOf('stat', 13) + fieldOf('stat', 14)) * 10_000,
    /** Resident memory: pages of 4 KiB. */
    memoryMiB: () => fieldOf('statm', 1) / 256,
    async stop() {
      if (child.kill()) await once(child, 'exit');
    },
  };
}

/**
 * Creates a store with `rows` animals, which alternate between the statuses, and an API key for each account that is named. Returns the keys, and
 * the store, which is still open.
 */
export async function seed(url: string, rows: number, accounts: string[]) {
  const store = await openStore(url, { now: () => new Date() });
  const insert = `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${rows})
    INSERT INTO pet (id, name, category_id, status)
    SELECT i, 'pet ' || i, i % 100, CASE i % 3 WHEN 0 THEN 'available' WHEN 1 THEN 'pending' ELSE 'sold' END FROM n`;
  if (url.startsWith('sqlite:')) new Database(url.slice('sqlite:'.length)).exec(insert).close();
  else {
    const sql = postgres(url);
    await sql.unsafe(insert);
    // Then the planner knows the table.
    await sql`VACUUM ANALYZE pet`;
    await sql.end();
  }
  for (const name of new Set(accounts)) await store.accounts.addAccount(name);
  const keys: string[] = [];
  for (const account of accounts) {
    const secret = newSecret(false);
    await store.accounts.addKey({ account, name: 'bench', scopes: [...scopes], lifetimeMs: null, secret });
    keys.push(secret.key);
  }
  return { store, keys };
}

/** Starts PostgreSQL, not pinned to a core. `create` creates a database and returns its URL. */
export async function startPostgres() {
  const data = testPostgres.dataFolder();
  testPostgres.initialize(data, []);
  const server = await testPostgres.start(data);
  return {
    async create(name: string): Promise<string> {
      const sql = postgres(server.url('postgres'));
      await sql.unsafe(`CREATE DATABASE ${name}`);
      await sql.end();
      return server.url(name);
    },
    async stop() {
      await server.kill();
      rmSync(data, { recursive: true, force: true });
    },
  };
}
