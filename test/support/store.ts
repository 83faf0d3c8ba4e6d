/** Opens empty stores for tests, on the database of the suite, and reads their tables. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import postgres from 'postgres';
import { afterAll, inject, onTestFinished } from 'vitest';
import { openStore, sqliteFile } from '../../src/store/open.ts';
import { configOf } from '../../src/store/postgres/connection.ts';
import { createPools } from '../../src/store/postgres/pool.ts';
import { readTarget, type Target } from '../../src/store/postgres/url.ts';
import type { OpenOptions, Store } from '../../src/store/store.ts';
import type {} from './postgres-setup.ts';

export function temporaryFolder() {
  const folder = mkdtempSync(`${tmpdir()}/animal-store-`);
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Undefined if the suite runs on SQLite. */
const postgresUrl = inject('postgresUrl') as string | undefined;

export const engines = ['SQLite', 'PostgreSQL'] as const;

type Engine = (typeof engines)[number];

export const engine: Engine = postgresUrl === undefined ? 'SQLite' : 'PostgreSQL';

let administrator: postgres.Sql | undefined;

/** Creates an empty database, or a copy of `template`; it lasts until the server ends. */
export async function newDatabase(
  options: { template?: string; encoding?: string; settings?: Record<string, string | number> } = {},
) {
  const { template = 'template0', encoding = 'UTF8', settings = {} } = options;
  administrator ??= postgres(`${postgresUrl}postgres`, { max: 1, onnotice: () => {} });
  const name = `test_${randomBytes(8).toString('hex')}`;
  await administrator.unsafe(`CREATE DATABASE ${name} TEMPLATE ${template} ENCODING '${encoding}'`);
  for (const [setting, value] of Object.entries(settings))
    await administrator.unsafe(`ALTER DATABASE ${name} SET ${setting} = ${value}`);
  return `${postgresUrl}${name}`;
}

export const newStore = () => newDatabase({ template: 'template_animals' });

export const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

const tables = [
  'pet',
  'account',
  'rotated_key',
  'form_token',
  'api_key_usage',
  'api_key_error',
  'api_key',
  'idempotency',
  'message',
  'session',
  'one_time_link',
  'attempt',
  'counted_attempt',
  'account_event',
];

/** Restores the tables' state after the first start. */
const truncate = {
  // The data need not survive a crash.
  sqlite: `PRAGMA synchronous = OFF; BEGIN IMMEDIATE;
    ${[...tables, 'import', 'sqlite_sequence'].map((table) => `DELETE FROM ${table};`).join('')} COMMIT`,
  postgres: `TRUNCATE ${tables.join(', ')} RESTART IDENTITY; UPDATE pet_id SET last_id = 0`,
};

const empty = (databaseUrl: string) =>
  runSql(databaseUrl, databaseUrl.startsWith('sqlite:') ? truncate.sqlite : truncate.postgres);

/** URLs of databases that earlier tests of this file used. Emptying a database takes a tenth of the time of creating one. */
const emptied: string[] = [];

/** URL of an empty store with the current schema, which no other test uses at the same time. */
export async function emptyStore(on: Engine = engine) {
  if (on === 'SQLite') return `sqlite:${temporaryFolder()}/store.db`;
  const databaseUrl = emptied.pop() ?? (await newStore());
  // Hooks that are registered later, for example a store's close, run earlier.
  onTestFinished(async () => {
    await empty(databaseUrl);
    emptied.push(databaseUrl);
  });
  return databaseUrl;
}

type OpenStore = Awaited<ReturnType<typeof openNew>>;

/** Open stores that earlier tests of this file have returned. */
const free: OpenStore[] = [];

async function openNew() {
  const file = path.join(mkdtempSync(`${tmpdir()}/animal-store-`), 'store.db');
  const databaseUrl = postgresUrl === undefined ? `sqlite:${file}` : await newStore();
  let present: Date | undefined;
  const now = () => present ?? new Date();
  /** Sets the store's clock; undefined: the system clock. */
  const setTime = (time?: Date) => {
    present = time;
  };
  return { databaseUrl, store: await openStore(databaseUrl, { now }), now, setTime };
}

async function discard({ databaseUrl, store }: OpenStore) {
  await store.close();
  if (postgresUrl === undefined) rmSync(path.dirname(sqliteFile(databaseUrl)), { recursive: true });
}

/** An open, empty store for one test. Stores are reused: opening and closing one takes most of the time of a request test. */
export async function borrowStore() {
  const borrowed = free.pop() ?? (await openNew());
  onTestFinished(async () => {
    try {
      await borrowed.store.check();
      await empty(borrowed.databaseUrl);
      borrowed.setTime();
      free.push(borrowed);
    } catch {
      // The test has closed or damaged the store.
      await discard(borrowed);
    }
  });
  const { pets, accounts, messages, people } = borrowed.store;
  // A copy, because some tests replace functions with faulty ones.
  const copies = { pets: { ...pets }, accounts: { ...accounts }, messages: { ...messages }, people: { ...people } };
  const store = { ...borrowed.store, ...copies };
  return { ...borrowed, store };
}

afterAll(async () => {
  for (const opened of free.splice(0)) await discard(opened);
});

/** Opens the store at a URL; closes it when the test ends. */
export async function open(databaseUrl: string, options: Partial<OpenOptions> = {}): Promise<Store> {
  const store = await openStore(databaseUrl, { now: () => new Date(), ...options });
  onTestFinished(() => store.close());
  return store;
}

/** The pools of a server with such a target, which are closed when the test ends. */
export async function openPools(databaseUrl: string, more: Partial<Target>, metrics?: OpenOptions['metrics']) {
  const target = { ...readTarget(databaseUrl), ...more };
  const pools = createPools(await configOf(target), target, metrics);
  onTestFinished(() => pools.close());
  return pools;
}

/** A direct connection to the store's PostgreSQL database. */
export function clientOf(databaseUrl: string): postgres.Sql {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} });
  // The timeout closes the connection even if a failed test holds a lock.
  onTestFinished(() => sql.end({ timeout: 1 }));
  return sql;
}

/** How many sessions of the database wait for a lock. */
export const waitingForLocks = async (sql: postgres.Sql) =>
  (await sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).length;

/** Counts the writes of each commit, for `open`. */
export function countCommits() {
  const commits: number[] = [];
  const metrics = { commit: (writes: number) => void commits.push(writes), query: () => {}, failed: () => {} };
  return { commits, metrics };
}

/** Runs a statement on the database of the store, over a separate connection. */
export async function runSql(databaseUrl: string, sql: string) {
  if (databaseUrl.startsWith('sqlite:')) {
    const database = new Database(sqliteFile(databaseUrl));
    database.exec(sql);
    database.close();
  } else {
    const client = postgres(databaseUrl, { max: 1, onnotice: () => {} });
    await client.unsafe(sql).finally(() => client.end());
  }
}

/** Runs a query on the database of the store, over a separate connection; returns all values as text. */
export async function textRows(databaseUrl: string, sql: string): Promise<Record<string, string | null>[]> {
  if (databaseUrl.startsWith('sqlite:')) {
    const database = new Database(sqliteFile(databaseUrl), { readonly: true });
    const rows = database.prepare<[], Record<string, unknown>>(sql).safeIntegers().all();
    database.close();
    return rows.map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value === null ? null : String(value)])),
    );
  }
  const client = postgres(databaseUrl, { max: 1, fetch_types: false });
  try {
    return [...(await client.unsafe<Record<string, string | null>[]>(sql))];
  } finally {
    await client.end();
  }
}
