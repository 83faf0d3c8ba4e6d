/** The servers under load: a seeded store, the animal store itself, and the yardstick that answers the same bytes. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { newSecret, scopes } from '../src/accounts.ts';
import { openRepository } from '../src/repository/open.ts';
import { nodeOptions, projectFolder } from '../test/support/project.ts';

/** Server on one core, load on the other, where the system can say so. */
const pinned = availableParallelism() > 1 && spawnSync('taskset', ['-V']).status === 0;

/** The command that keeps a program on `core`. */
export function onCore(core: number | undefined, command: string[]): [string, string[]] {
  const [program, ...args] = pinned && core !== undefined ? ['taskset', '-c', String(core), ...command] : command;
  return [program as string, args];
}

export interface Running {
  url: string;
  process: ChildProcess;
  /** From the start of the process to its first answer. */
  startMs: number;
  /** Memory of the process now, in MiB. */
  memoryMiB: () => number;
  stop: () => Promise<void>;
}

/** Makes a store with `rows` animals, whose statuses take turns, and returns a key to it. */
export async function seed(file: string, rows: number): Promise<string> {
  const store = await openRepository(`sqlite:${file}`, { now: () => new Date() });
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

async function running(child: ChildProcess, url: string, begun: number): Promise<Running> {
  for (;;) {
    const answered = await fetch(`${url}/v1/pets/1`).then(
      (response) => response.arrayBuffer().then(() => true),
      () => false,
    );
    if (answered) break;
    if (child.exitCode !== null) throw new Error(`the server at ${url} ended with ${child.exitCode}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return {
    url,
    process: child,
    startMs: performance.now() - begun,
    memoryMiB: () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1] ?? Number.NaN) / 1024,
    stop: async () => {
      if (child.exitCode !== null) return;
      child.kill();
      await once(child, 'exit');
    },
  };
}

/** The animal store, as in production: JSON logs at info, written to a file beside the store. */
export function startStore(
  file: string,
  port: number,
  environment: Record<string, string> = {},
  core: number | undefined = 0,
): Promise<Running> {
  const begun = performance.now();
  const [program, args] = onCore(core, [process.execPath, ...nodeOptions, path.join(projectFolder, 'src/main.ts')]);
  const command = `exec "$0" "$@" >> ${file}.log 2>&1`;
  const env = {
    PATH: process.env.PATH,
    NODE_ENV: 'production',
    DATABASE_URL: `sqlite:${file}`,
    PORT: String(port),
    // Two run side by side.
    OPS_PORT: 'off',
    ...environment,
  };
  const child = spawn('sh', ['-c', command, program, ...args], { cwd: path.dirname(file), env, stdio: 'ignore' });
  return running(child, `http://127.0.0.1:${port}`, begun);
}

const hopByHop = ['date', 'connection', 'keep-alive', 'transfer-encoding'];

/** node:http, answering what the animal store at `url` answered to the same requests. */
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
  const begun = performance.now();
  const [program, args] = onCore(0, [process.execPath, path.join(projectFolder, 'bench/bare.ts'), String(port), file]);
  return running(spawn(program, args, { stdio: 'ignore' }), `http://127.0.0.1:${port}`, begun);
}

export const limits = [5, 20, 50, 100];
export const newPet = '{"name":"Biscuit","categoryId":9007199254740993}';
