/** Stores for one test, on the database that the suite runs on, and what they hold. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import postgres from 'postgres';
import { afterAll, inject, onTestFinished } from 'vitest';
import { openRepository, sqliteFile } from '../../src/repository/open.ts';
import type { OpenOptions, Repository } from '../../src/repository/store.ts';
import type {} from './postgres-setup.ts';

export function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Undefined where the suite runs on SQLite. */
const postgresUrl = inject('postgresUrl') as string | undefined;

export const engine = postgresUrl === undefined ? 'SQLite' : 'PostgreSQL';

let administrator: postgres.Sql | undefined;

/** Makes an empty database, or a copy of `template`; gone when the test ends. */
export async function newDatabase(options: { template?: string; encoding?: string } = {}): Promise<string> {
  const { template = 'template0', encoding = 'UTF8' } = options;
  administrator ??= postgres(`${postgresUrl}postgres`, { max: 1, onnotice: () => undefined });
  const name = `test_${randomBytes(8).toString('hex')}`;
  await administrator.unsafe(`CREATE DATABASE ${name} TEMPLATE ${template} ENCODING '${encoding}'`);
  return `${postgresUrl}${name}`;
}

/** A store's tables at its first start. */
const truncate = {
  sqlite: [
    ...['pet', 'account', 'api_key', 'idempotency', 'message', 'import'].map((table) => `DELETE FROM ${table}`),
    'DELETE FROM sqlite_sequence',
  ].join(';'),
  postgres: 'TRUNCATE pet, account, api_key, idempotency, message RESTART IDENTITY; UPDATE pet_id SET last_id = 0',
};

async function empty(databaseUrl: string): Promise<void> {
  if (postgresUrl === undefined) {
    const database = new Database(sqliteFile(databaseUrl));
    // A crash may lose it.
    database.pragma('synchronous = OFF');
    database.transaction(() => database.exec(truncate.sqlite)).immediate();
    database.close();
    return;
  }
  const sql = postgres(databaseUrl, { max: 1 });
  await sql.unsafe(truncate.postgres);
  await sql.end();
}

/** Addresses that earlier tests of this file have left: to empty a database takes a tenth of the time that it takes to make one. */
const emptied: string[] = [];

/** Address of an empty store of this release's schema, which no other test uses meanwhile. */
export async function emptyStore(): Promise<string> {
  if (postgresUrl === undefined) return `sqlite:${temporaryFolder()}/store.db`;
  const databaseUrl = emptied.pop() ?? (await newDatabase({ template: 'template_animals' }));
  // What is registered later, such as a store's close, runs before.
  onTestFinished(async () => {
    await empty(databaseUrl);
    emptied.push(databaseUrl);
  });
  return databaseUrl;
}

interface OpenStore {
  databaseUrl: string;
  store: Repository;
  now: () => Date;
  /** Sets what it takes for the present; undefined: the clock's. */
  setTime: (time?: Date) => void;
}

/** Open stores that earlier tests of this file have given back. */
const free: OpenStore[] = [];

async function openNew(): Promise<OpenStore> {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'animal-store-')), 'store.db');
  const databaseUrl =
    postgresUrl === undefined ? `sqlite:${file}` : await newDatabase({ template: 'template_animals' });
  let present: Date | undefined;
  const now = () => present ?? new Date();
  const setTime = (time?: Date) => {
    present = time;
  };
  return { databaseUrl, store: await openRepository(databaseUrl, { now }), now, setTime };
}

async function discard({ databaseUrl, store }: OpenStore): Promise<void> {
  await store.close();
  if (postgresUrl === undefined) rmSync(path.dirname(sqliteFile(databaseUrl)), { recursive: true });
}

/** While Stryker counts which test reaches what, a store's thread counts for the test that started it (test/mutation/setup.ts). */
const isCounted = () => process.env.MUTANTS_TEST !== undefined && process.env.__STRYKER_ACTIVE_MUTANT__ === undefined;

/** An open and empty store for one test, which may be the last one's: most of what a test of a request takes is its store's start and end. */
export async function borrowStore(): Promise<OpenStore> {
  const borrowed = free.pop() ?? (await openNew());
  onTestFinished(async () => {
    if (isCounted()) return discard(borrowed);
    try {
      await borrowed.store.check();
      await empty(borrowed.databaseUrl);
      borrowed.setTime();
      free.push(borrowed);
    } catch {
      // The test has closed or damaged it.
      await discard(borrowed);
    }
  });
  const { pets, accounts, messages } = borrowed.store;
  // A copy: some tests put faults in place of what it does.
  const store = { ...borrowed.store, pets: { ...pets }, accounts: { ...accounts }, messages: { ...messages } };
  return { ...borrowed, store };
}

afterAll(async () => {
  for (const opened of free.splice(0)) await discard(opened);
});

/** The store at an address, closed when the test ends. */
export async function open(databaseUrl: string, options: Partial<OpenOptions> = {}): Promise<Repository> {
  const store = await openRepository(databaseUrl, { now: () => new Date(), ...options });
  onTestFinished(() => store.close());
  return store;
}

/** A connection past the store to its PostgreSQL database. */
export function clientOf(databaseUrl: string): postgres.Sql {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined });
  // Also where a test fails with a lock in its hands.
  onTestFinished(() => sql.end({ timeout: 1 }));
  return sql;
}

/** What the store at `databaseUrl` holds, by another connection, as texts. */
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
