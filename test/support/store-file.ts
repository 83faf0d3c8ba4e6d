/** Creates a store with an API key, starts a server on it, and checks the store's file without a server. */
import { setTimeout } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { newSecret, scopes } from '../../src/core/accounts.ts';
import { oldestOn, readMigrations } from '../../src/store/migrations.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { temporaryFolder } from './app.ts';
import { type Client, openClient, type Promises } from './client.ts';
import { findPort } from './known-port.ts';
import { launchServer, type Process, type Surroundings } from './process.ts';

export type MadeStore = Awaited<ReturnType<typeof makeStore>>;

/** Creates a store without pets, fills it, and closes it. */
export async function makeStore(folder = temporaryFolder(), fill?: (store: Store) => Promise<unknown>) {
  const file = `${folder}/store.db`;
  /** Settings for a server that opens it. */
  const env = { DATABASE_URL: `sqlite:${file}` };
  const store = await openStore(env.DATABASE_URL, { now: () => new Date() });
  /** An API key with both scopes. */
  const key = await addAccount(store, 'zoo');
  await fill?.(store);
  await store.close();
  return { folder, file, key, env };
}

/** Creates a store with the schema of an earlier version. */
export function makeOlder(file: string, version: number) {
  const database = new Database(file);
  const applied = readMigrations('sqlite').slice(0, version);
  for (const { text } of applied) database.exec(text);
  const record = database.prepare('INSERT INTO migration VALUES (?, ?, 0)');
  for (const { version, name } of applied) record.run(version, name);
  const { release, version: compared } = oldestOn(applied);
  record.run(0, release);
  database.exec(`PRAGMA application_id = ${0x414e4d4c}; PRAGMA user_version = ${compared}`);
  database.close();
}

/** Adds an account with a key. */
export async function addAccount({ accounts }: Store, account: string) {
  await accounts.addAccount(account);
  return addKey(accounts, account);
}

export async function addKey(accounts: Store['accounts'], account: string, lifetimeMs: number | null = null) {
  const secret = newSecret(false);
  await accounts.addKey({ account, name: 'till', scopes: [...scopes], lifetimeMs, secret });
  return secret.key;
}

/** Resolves at the first 200; rejects if the process ends before. A server that started slowly may respond 503 at first. */
async function firstAnswer({ end }: Process, { get }: Client) {
  let ended: string | undefined;
  void end().then(({ code, stderr }) => {
    ended = `exit ${code} before the first response\n${stderr}`;
  });
  while ((await get('/v1/pets?limit=1')).status !== 200) {
    if (ended) throw new Error(ended);
    await setTimeout(10);
  }
}

/** Starts a server on the store, and waits until it answers a client that remembers in `promises` what was acknowledged. */
export async function serve(
  made: MadeStore,
  connections: number,
  surroundings: Surroundings = {},
  promises: Promises = new Map(),
) {
  const port = await findPort();
  const server = launchServer({ ...surroundings, env: { ...made.env, ...surroundings.env, PORT: String(port) } });
  const url = `http://127.0.0.1:${port}`;
  const client = openClient(url, made.key, connections, promises);
  await firstAnswer(server, client);
  return { ...made, ...client, server, port, url, promises };
}

/** Names of acknowledged pets that are not in the file under their id. Throws if the file is corrupt. */
export function missingFrom(file: string, promises: Promises) {
  const database = new Database(file, { readonly: true });
  try {
    const verdict = database.pragma('integrity_check', { simple: true });
    if (verdict !== 'ok') throw new Error(`${file}: ${verdict}`);
    const names = new Map(database.prepare('SELECT id, name FROM pet').raw().all() as [number, string][]);
    return [...promises].filter(([name, id]) => names.get(id) !== name).map(([name]) => name);
  } finally {
    database.close();
  }
}
