/** Starts the servers under load: the animal store on a seeded file, and the baselines, node:http and plain Fastify. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, copyFileSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { newSecret, scopes } from '../src/core/accounts.ts';
import { openStore } from '../src/store/open.ts';
import { nodeOptions, projectFolder } from '../test/support/project.ts';

/** Whether processes can be pinned: the server to one core and the load to another. */
const pinned = availableParallelism() > 1 && spawnSync('taskset', ['-V']).status === 0;

/** The command that runs a program pinned to `core` where that is possible. */
export function onCore(core: number, command: string[]): [string, string[]] {
  const [program, ...args] = pinned ? ['taskset', '-c', String(core), ...command] : command;
  return [program as string, args];
}

export interface Running {
  url: string;
  pid: number;
  /** Time from the start of the process to its first response, in milliseconds. */
  startMs: number;
  /** Memory of the process now, in MiB. */
  memoryMiB: () => number;
  stop: () => Promise<void>;
}

/** Creates a store with `rows` animals, which alternate between the statuses, and returns an API key for it. */
async function seed(file: string, rows: number): Promise<string> {
  const store = await openStore(`sqlite:${file}`, { now: () => new Date() });
  const secret = newSecret(false);
  await store.accounts.addAccount('bench');
  await store.accounts.addKey({ account: 'bench', name: 'bench', scopes: [...scopes], lifetimeMs: null, secret });
  await store.close();
  const database = new Database(file);
  database.pragma('synchronous = OFF');
  database
    .prepare(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO pet (name, category_id, status)
       SELECT 'pet ' || i, i % 100, CASE i % 3 WHEN 0 THEN 'available' WHEN 1 THEN 'pending' ELSE 'sold' END FROM n`,
    )
    .run(rows);
  database.pragma('wal_checkpoint(TRUNCATE)');
  database.close();
  return secret.key;
}

/** Creates a store with `rows` animals in `file`. */
export type CopySeed = (rows: number, file: string) => Promise<{ file: string; key: string }>;

/** Fills one store in `folder` per number of rows, and copies it for each server, because every server writes to its own store. */
export function createSeeds(folder: string): CopySeed {
  const keys = new Map<number, string>();
  return async (rows, file) => {
    const source = path.join(folder, `seed-${rows}.db`);
    const key = keys.get(rows) ?? (await seed(source, rows));
    keys.set(rows, key);
    copyFileSync(source, file, constants.COPYFILE_FICLONE);
    return { file, key };
  };
}

const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill();
});

interface Start {
  port: number;
  /** The file for its output. */
  log: string;
  environment?: Record<string, string>;
}

/** Starts a Node program and waits for its first response. */
async function start(args: string[], { port, log, environment }: Start): Promise<Running> {
  const begun = performance.now();
  const url = `http://127.0.0.1:${port}`;
  const [program, programArgs] = onCore(0, [process.execPath, ...args]);
  const output = openSync(log, 'a');
  const child = spawn(program, programArgs, {
    cwd: path.dirname(log),
    env: { PATH: process.env.PATH, NODE_ENV: 'production', ...environment },
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  children.add(child);
  for (;;) {
    const answered = await fetch(`${url}/v1/pets/1`).then(
      (response) => response.arrayBuffer().then(() => true),
      () => false,
    );
    if (child.exitCode !== null)
      throw new Error(`the server at ${url} ended with ${child.exitCode}:\n${readFileSync(log, 'utf8')}`);
    if (answered) break;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return {
    url,
    pid: child.pid as number,
    startMs: performance.now() - begun,
    memoryMiB: () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1] ?? Number.NaN) / 1024,
    stop: async () => {
      children.delete(child);
      if (child.exitCode !== null) return;
      child.kill();
      await once(child, 'exit');
    },
  };
}

/** Starts the animal store as in production, with JSON logs at info in a file next to the store. */
export function startStore(file: string, port: number, environment: Record<string, string> = {}): Promise<Running> {
  return start([...nodeOptions, path.join(projectFolder, 'src/main.ts')], {
    port,
    log: `${file}.log`,
    // Several servers run in parallel, and they cannot share one OPS_PORT.
    environment: { DATABASE_URL: `sqlite:${file}`, PORT: String(port), OPS_PORT: 'off', ...environment },
  });
}

/** Plain Fastify on the store in `file`, or on its PostgreSQL database; it logs to a file next to the store. */
export function startPlain(file: string, port: number, logger: 'on' | 'off', databaseUrl = file): Promise<Running> {
  const args = [fileURLToPath(import.meta.resolve('./plain.ts')), String(port), databaseUrl, logger];
  return start(args, { port, log: `${file}.plain.log` });
}

const hopByHop = ['date', 'connection', 'keep-alive', 'transfer-encoding'];

/** node:http, which sends the responses that `store` gave to the same requests. */
export async function startBare(store: Running, key: string, folder: string, port: number): Promise<Running> {
  const authorization = { authorization: `Bearer ${key}` };
  const record = async (target: string, init: RequestInit = { headers: authorization }) => {
    const response = await fetch(store.url + target, init);
    const headers = [...response.headers].filter(([name]) => !hopByHop.includes(name));
    return { status: response.status, headers: Object.fromEntries(headers), body: await response.text() };
  };
  const answers: Record<string, unknown> = {
    list: await record('/v1/pets'),
    get: await record('/v1/pets/5000'),
    none: await record('/v1/pets', {}),
    create: await record('/v1/pets', {
      method: 'POST',
      body: newPet,
      headers: { ...authorization, 'content-type': 'application/json' },
    }),
  };
  for (const limit of limits) answers[`list ${limit}`] = await record(`/v1/pets?limit=${limit}`);
  const file = path.join(folder, 'recorded.json');
  writeFileSync(file, JSON.stringify(answers));
  const args = [fileURLToPath(import.meta.resolve('./bare.ts')), String(port), file];
  return start(args, { port, log: path.join(folder, 'bare.log') });
}

export const limits = [5, 20, 50, 100];
export const newPet = '{"name":"Biscuit","categoryId":9007199254740993}';
