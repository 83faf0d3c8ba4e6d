/** Applies each SQL file of migrations/postgres once, in order, even if several servers start concurrently. */
import { setTimeout as sleep } from 'node:timers/promises';
import { codeOf } from '../../core/errors.ts';
import { latestOf, type Migration, obstacleOf, oldestOn, readMigrations, type SchemaState } from '../migrations.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { insufficientPrivilege } from './errors.ts';
import type { Pool } from './pool.ts';
import type { Sql } from './sql.ts';

/**
 * Errors that processes may get when they create the same table concurrently: duplicate_table, duplicate_object (the table's row type),
 * unique_violation in the catalog. Serialization failure and deadlock: running servers may lock the same tables in another order.
 */
const temporary = ['42P07', '42710', '23505', '40001', '40P01'];

/** How long a migration waits for a table: less than the deadline of the running servers' statements. */
const lockTimeoutMs = 1500;

/** https://www.postgresql.org/docs/18/errcodes-appendix.html */
const lockNotAvailable = '55P03';

/**
 * A release refuses a database whose table `migration` has a later version than its own. Row 0 names the oldest release that can run, for people.
 * Versions that older releases can run on are in `additive_migration`.
 */
export async function readState(sql: Sql): Promise<SchemaState> {
  const [found] = await sql`
    SELECT to_regclass('migration') IS NOT NULL AS migrated, to_regclass('additive_migration') IS NOT NULL AS added`;
  if (!found?.migrated) return { version: 0, oldest: { release: '', version: 0 } };
  const [row] = await sql`
    SELECT coalesce(max(version), 0) AS version, coalesce(max(name) FILTER (WHERE version = 0), '') AS release FROM migration`;
  const oldest = { release: row?.release, version: row?.version };
  const [added] = found.added ? await sql`SELECT coalesce(max(version), 0) AS version FROM additive_migration` : [];
  return { version: Math.max(oldest.version, added?.version ?? 0), oldest };
}

async function retry<Result>(act: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (attempt === 50 || !temporary.includes(codeOf(error))) throw error;
      await sleep(20 + Math.random() * 80);
    }
  }
}

/** Throws OpenError if the schema needs a later release. Returns the migrations that are due. */
function dueOn(state: SchemaState, migrations: Migration[]): Migration[] {
  const obstacle = obstacleOf(state, latestOf(migrations));
  if (obstacle !== undefined) throw new OpenError(obstacle);
  return migrations.filter(({ version }) => version > state.version);
}

/** Migrates in one transaction. Resolves to the names of the migrations that it applied. Rejects with OpenError if a table stays locked. */
async function applyAll(sql: Sql, migrations: Migration[], now: Date): Promise<string[]> {
  const applied: string[] = [];
  try {
    await sql.begin(async (transaction) => {
      // The time-outs are meant for requests.
      await transaction.unsafe(
        'SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 60000',
      );
      for (const table of ['migration', 'additive_migration'])
        await transaction.unsafe(
          `CREATE TABLE IF NOT EXISTS ${table} (version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)`,
        );
      await transaction`INSERT INTO migration VALUES (0, '', 0) ON CONFLICT DO NOTHING`;
      // Migrating processes lock this row. A session-level advisory lock would not work through a connection pooler.
      await transaction`SELECT FROM migration WHERE version = 0 FOR UPDATE`;
      // While ALTER TABLE waits for a long transaction, such as a dump, all statements of running servers on that table wait behind it.
      await transaction.unsafe(`SET LOCAL lock_timeout = ${lockTimeoutMs}`);
      for (const { version, name, sql: text } of dueOn(await readState(transaction), migrations)) {
        await transaction.unsafe(text);
        await transaction`INSERT INTO additive_migration VALUES (${version}, ${name}, ${now.getTime()})`;
        applied.push(name);
      }
      if (applied.length > 0) await recordOldest(transaction, migrations);
    });
  } catch (error) {
    if (codeOf(error) !== lockNotAvailable) throw error;
    throw new OpenError('has a table that a long transaction uses, such as a dump: migrate it when that has ended.', {
      cause: error,
    });
  }
  return applied;
}

/** Moves the versions up to that of the oldest release that can run, so that older releases refuse the database. */
async function recordOldest(sql: Sql, migrations: Migration[]): Promise<void> {
  const { release, version } = oldestOn(migrations);
  await sql`UPDATE migration SET name = ${release} WHERE version = 0`;
  await sql`
    WITH moved AS (DELETE FROM additive_migration WHERE version <= ${version} RETURNING *)
    INSERT INTO migration SELECT * FROM moved`;
}

const outdated = (version: number, latest: number, role = '') =>
  `has schema version ${version}, and this release needs ${latest}: run animal-store migrate${role}.`;

/**
 * Migrates the database to this release's schema. Resolves to the names of the migrations that it applied. Throws OpenError if the schema needs a later release, if it is older and `migrate` is false or the
 * role may not change it, or if a table stays locked.
 */
export async function prepareSchema(
  pool: Pool,
  { now, migrate: mayMigrate = true }: Pick<OpenOptions, 'now' | 'migrate'>,
): Promise<string[]> {
  const migrations = readMigrations('postgres');
  const latest = latestOf(migrations);
  const state = await pool.read(readState);
  if (dueOn(state, migrations).length === 0) return [];
  const { version } = state;
  if (!mayMigrate) throw new OpenError(outdated(version, latest));
  try {
    return await retry(() => pool.alone((sql) => applyAll(sql, migrations, now())));
  } catch (error) {
    if (codeOf(error) !== insufficientPrivilege) throw error;
    throw new OpenError(outdated(version, latest, ' as the role that owns the tables'), { cause: error });
  }
}
