/** Ordered SQL migrations of a database that several servers share: each is applied once, by whichever of them comes first. */
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import { OpenError, type OpenOptions } from '../store.ts';
import type { Sql } from './connection.ts';

const folder = new URL('../../../migrations/postgres/', import.meta.url);

/**
 * What two that create the same table at once may meet: duplicate_table, duplicate_object (its row's type), unique_violation in the
 * catalogue, or a conflict.
 */
const othersAtWork = ['42P07', '42710', '23505', '40001', '40P01'];

/** The files in order; the version of `0001_initial.sql` is 1. */
function files(): { version: number; name: string }[] {
  const names = fs.readdirSync(folder).filter((name) => name.endsWith('.sql'));
  return names.sort().map((name) => ({ version: Number.parseInt(name, 10), name }));
}

/** 0 where there is nothing of ours yet. */
async function currentVersion(sql: Sql | postgres.TransactionSql): Promise<number> {
  const [found] = await sql`SELECT to_regclass('migration') IS NOT NULL AS exists`;
  if (!found?.exists) return 0;
  const [row] = await sql`SELECT coalesce(max(version), 0) AS version FROM migration`;
  return Number(row?.version);
}

/** A table of our name without our record of it belongs to somebody else. */
async function refuseOthers(sql: Sql): Promise<void> {
  const [row] = await sql`
    SELECT string_agg(tablename, ', ' ORDER BY tablename) AS tables FROM pg_catalog.pg_tables
    WHERE schemaname = current_schema() AND tablename IN ('pet', 'pet_id', 'account', 'api_key', 'idempotency', 'message')`;
  // Another process may have made them since the version was read, and its record with them.
  if (row?.tables && (await currentVersion(sql)) === 0)
    throw new OpenError(`holds tables of another application (${row.tables}).`);
}

/** The row of version 0 is what migrating processes lock: a session's advisory lock would not survive a pooler between, nor exist in CockroachDB. */
async function createRecord(sql: Sql): Promise<void> {
  await sql`CREATE TABLE IF NOT EXISTS migration (version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)`;
  await sql`INSERT INTO migration VALUES (0, '', 0) ON CONFLICT DO NOTHING`;
}

async function retryWhileBusy(act: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (attempt === 50 || !othersAtWork.includes((error as postgres.PostgresError).code)) throw error;
      await sleep(20 + Math.random() * 80);
    }
  }
}

/** Brings the database to this release's schema, or refuses one that is older where `migrate` is false, and any that is newer. Throws OpenError. */
export async function prepareSchema(sql: Sql, { now, migrate = true, onMigration }: OpenOptions): Promise<void> {
  const latest = files().at(-1)?.version as number;
  const version = await currentVersion(sql);
  if (version > latest) throw new OpenError(`has schema version ${version}; this release knows none above ${latest}.`);
  if (version === latest) return;
  if (!migrate)
    throw new OpenError(`has schema version ${version}, and this release needs ${latest}: run animal-store migrate.`);
  if (version === 0) await refuseOthers(sql);
  await retryWhileBusy(() => createRecord(sql));
  const applied: string[] = [];
  await sql.begin(async (transaction) => {
    await transaction`SELECT FROM migration WHERE version = 0 FOR UPDATE`;
    const found = await currentVersion(transaction);
    for (const { version, name } of files().filter((file) => file.version > found)) {
      await transaction.unsafe(fs.readFileSync(new URL(name, folder), 'utf8'));
      await transaction`INSERT INTO migration VALUES (${version}, ${name}, ${now().getTime()})`;
      applied.push(name);
    }
  });
  for (const name of applied) onMigration?.(name);
}
