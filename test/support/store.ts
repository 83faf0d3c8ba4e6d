/** Stores for one test, on the database that the suite runs on, and what they hold. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import postgres from 'postgres';
import { inject, onTestFinished } from 'vitest';
import { openRepository } from '../../src/repository/open.ts';
import type { OpenOptions, Repository } from '../../src/repository/repository.ts';
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

/** Stores that earlier tests of this file have left: to empty one takes a tenth of the time that it takes to make one. */
const emptied: string[] = [];

async function empty(databaseUrl: string): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1 });
  await sql.unsafe(
    `TRUNCATE pet, account, api_key, idempotency, message RESTART IDENTITY; UPDATE pet_id SET last_id = 0`,
  );
  await sql.end();
  emptied.push(databaseUrl);
}

/** Address of an empty store of this release's schema, which no other test uses meanwhile. */
export async function emptyStore(): Promise<string> {
  if (postgresUrl === undefined) return `sqlite:${temporaryFolder()}/store.db`;
  const databaseUrl = emptied.pop() ?? (await newDatabase({ template: 'template_animals' }));
  // What is registered later, such as a store's close, runs before.
  onTestFinished(() => empty(databaseUrl));
  return databaseUrl;
}

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
    const database = new Database(databaseUrl.slice('sqlite:'.length), { readonly: true });
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
