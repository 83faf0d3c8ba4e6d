/** Applies each SQL file of migrations/postgres once, in order, even if several servers start concurrently. */
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseError } from 'pg';
import { OpenError, type OpenOptions } from '../store.ts';
import type { Sql } from './sql.ts';

const folder = new URL('../../../migrations/postgres/', import.meta.url);

/** Serialization failure and deadlock: running servers lock the tables that a migration changes in another order. */
const rolledBack = ['40001', '40P01'];

/**
 * Errors that processes may get when they create the same table concurrently: duplicate_table, duplicate_object (the table's row type),
 * unique_violation in the catalog, or those above.
 */
const concurrentCreation = ['42P07', '42710', '23505', ...rolledBack];

/** How long a migration waits for a table: less than the deadline of the running servers' statements. */
const lockTimeoutMs = 1500;

/** https://www.postgresql.org/docs/18/errcodes-appendix.html */
const lockNotAvailable = '55P03';

/** The files in order; the version of `0001_initial.sql` is 1. */
function files(): { version: number; name: string }[] {
  const names = fs.readdirSync(folder).filter((name) => name.endsWith('.sql'));
  return names.sort().map((name) => ({ version: Number.parseInt(name, 10), name }));
}

/** 0 if no migration has been applied. */
async function currentVersion(sql: Sql): Promise<number> {
  const [found] = await sql`SELECT to_regclass('migration') IS NOT NULL AS exists`;
  if (!found?.exists) return 0;
  const [row] = await sql`SELECT coalesce(max(version), 0) AS version FROM migration`;
  return Number(row?.version);
}

/** Tables with the store's names but without its migration records belong to another application. Throws OpenError if there are any. */
async function refuseOthers(sql: Sql): Promise<void> {
  const [row] = await sql`
    SELECT string_agg(tablename, ', ' ORDER BY tablename) AS tables FROM pg_catalog.pg_tables
    WHERE schemaname = current_schema() AND tablename IN
      ('pet', 'pet_id', 'account', 'api_key', 'idempotency', 'message', 'session', 'one_time_link', 'attempt', 'account_event')`;
  // Check the version again: another process may have migrated the database since it was read.
  if (row?.tables && (await currentVersion(sql)) === 0)
    throw new OpenError(`holds tables of another application (${row.tables}).`);
}

/**
 * Migrating processes lock the row of version 0. A session-level advisory lock would not work through a connection pooler, and CockroachDB
 * has none.
 */
async function createRecord(sql: Sql): Promise<void> {
  await sql`CREATE TABLE IF NOT EXISTS migration (version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)`;
  await sql`INSERT INTO migration VALUES (0, '', 0) ON CONFLICT DO NOTHING`;
}

async function retryAfter<Result>(codes: string[], act: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (attempt === 50 || !codes.includes(String((error as DatabaseError).code))) throw error;
      await sleep(20 + Math.random() * 80);
    }
  }
}

/** Resolves to the names of the migrations that it applied. Rejects with OpenError if a table stays locked. */
async function applyAll(sql: Sql, now: Date): Promise<string[]> {
  const applied: string[] = [];
  try {
    await sql.begin(async (transaction) => {
      await transaction`SELECT FROM migration WHERE version = 0 FOR UPDATE`;
      // While ALTER TABLE waits for a long transaction, such as a dump, all statements of running servers on that table wait behind it.
      await transaction.unsafe(`SET LOCAL lock_timeout = ${lockTimeoutMs}`);
      const found = await currentVersion(transaction);
      for (const { version, name } of files().filter((file) => file.version > found)) {
        await transaction.unsafe(fs.readFileSync(new URL(name, folder), 'utf8'));
        await transaction`INSERT INTO migration VALUES (${version}, ${name}, ${now.getTime()})`;
        applied.push(name);
      }
    });
  } catch (error) {
    if ((error as DatabaseError).code !== lockNotAvailable) throw error;
    throw new OpenError('has a table that a long transaction uses, such as a dump: migrate it when that has ended.', {
      cause: error,
    });
  }
  return applied;
}

/**
 * Migrates the database to this release's schema. Throws OpenError if the schema is newer, if it is older and `migrate` is false, if the tables
 * belong to another application, or if a table stays locked.
 */
export async function prepareSchema(sql: Sql, { now, migrate = true, onMigration }: OpenOptions): Promise<void> {
  const latest = files().at(-1)?.version as number;
  const version = await currentVersion(sql);
  if (version > latest)
    throw new OpenError(`has schema version ${version}; this release supports versions up to ${latest}.`);
  if (version === latest) return;
  if (!migrate)
    throw new OpenError(`has schema version ${version}, and this release needs ${latest}: run animal-store migrate.`);
  if (version === 0) await refuseOthers(sql);
  await retryAfter(concurrentCreation, () => createRecord(sql));
  const applied = await retryAfter(rolledBack, () => applyAll(sql, now()));
  for (const name of applied) onMigration?.(name);
}
