/** Applies each SQL file of migrations/postgres once, in order, even if several servers start concurrently. */
import { setTimeout as sleep } from 'node:timers/promises';
import { codeOf, messageOf } from '../../core/errors.ts';
import { latestOf, type Migration, obstacleOf, oldestOn, readMigrations, type SchemaState } from '../migrations.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { insufficientPrivilege } from './errors.ts';
import type { Pool } from './pool.ts';
import type { Connection } from './sql.ts';

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
export async function readState(connection: Connection): Promise<SchemaState> {
  const [found] = await connection`
    SELECT to_regclass('migration') IS NOT NULL AS migrated, to_regclass('additive_migration') IS NOT NULL AS added`;
  if (!found?.migrated) return { version: 0, oldest: { release: '', version: 0 } };
  const [row] = await connection`
    SELECT coalesce(max(version), 0) AS version, coalesce(max(name) FILTER (WHERE version = 0), '') AS release FROM migration`;
  const oldest = { release: row?.release, version: row?.version };
  const [added] = found.added
    ? await connection`SELECT coalesce(max(version), 0) AS version FROM additive_migration`
    : [];
  return { version: Math.max(oldest.version, added?.version ?? 0), oldest };
}

/** Throws OpenError if the schema needs a later release. Returns the migrations that are due. */
function dueOn(state: SchemaState, migrations: Migration[]): Migration[] {
  const obstacle = obstacleOf(state, latestOf(migrations));
  if (obstacle !== undefined) throw new OpenError(obstacle);
  return migrations.filter(({ version }) => version > state.version);
}

/** Migrates in one transaction. Resolves to the names of the migrations that it applied. */
function applyAll(connection: Connection, migrations: Migration[], now: Date): Promise<string[]> {
  return connection.begin(async () => {
    // The time-outs are meant for requests.
    await connection.unsafe(
      'SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 60000',
    );
    // Otherwise a second store begins in a schema that has come first in search_path since.
    const [elsewhere] = await connection`
      SELECT nspname AS schema, current_schema() AS first FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE pg_class.oid = to_regclass('migration') AND nspname IS DISTINCT FROM current_schema()`;
    if (elsewhere)
      throw new OpenError(
        `has its tables in the schema ${elsewhere.schema}, and new ones would be made in ${elsewhere.first}: put ${elsewhere.schema} first in the search_path of the role.`,
      );
    for (const table of ['migration', 'additive_migration'])
      await connection.unsafe(
        `CREATE TABLE IF NOT EXISTS ${table} (version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)`,
      );
    await connection`INSERT INTO migration VALUES (0, '', 0) ON CONFLICT DO NOTHING`;
    // Migrating processes lock this row. A session-level advisory lock would not work through a connection pooler.
    await connection`SELECT FROM migration WHERE version = 0 FOR UPDATE`;
    // While ALTER TABLE waits for a long transaction, such as a dump, all statements of running servers on that table wait behind it.
    await connection.unsafe(`SET LOCAL lock_timeout = ${lockTimeoutMs}`);
    const state = await readState(connection);
    const due = dueOn(state, migrations);
    for (const { version, name, text } of due) {
      await connection.unsafe(text);
      await connection`INSERT INTO additive_migration VALUES (${version}, ${name}, ${now.getTime()})`;
    }
    if (due.length > 0) await recordOldest(connection, migrations);
    return due.map(({ name }) => name);
  });
}

/** Moves the versions up to that of the oldest release that can run into `migration`, so that older releases refuse the database. */
async function recordOldest(connection: Connection, migrations: Migration[]): Promise<void> {
  const { release, version } = oldestOn(migrations);
  await connection`UPDATE migration SET name = ${release} WHERE version = 0`;
  await connection`
    WITH moved AS (DELETE FROM additive_migration WHERE version <= ${version} RETURNING *)
    INSERT INTO migration SELECT * FROM moved`;
}

/**
 * Migrates the database to this release's schema. Resolves to the names of the migrations that it applied. Throws OpenError if the schema needs a
 * later release, if it is older and `migrate` is false or the role may not change it, or if a table stays locked.
 */
export async function prepareSchema(
  pool: Pool,
  { now, migrate: mayMigrate = true }: Pick<OpenOptions, 'now' | 'migrate'>,
): Promise<string[]> {
  const migrations = readMigrations('postgres');
  const state = await pool.read(readState);
  if (dueOn(state, migrations).length === 0) return [];
  const outdated = `has schema version ${state.version}, and this release needs ${latestOf(migrations)}: run animal-store migrate`;
  if (!mayMigrate) throw new OpenError(`${outdated}.`);
  for (let attempt = 1; ; attempt++) {
    try {
      return await pool.alone((connection) => applyAll(connection, migrations, now()));
    } catch (error) {
      const code = codeOf(error);
      if (code === insufficientPrivilege)
        throw new OpenError(
          state.version === 0
            ? `cannot be migrated: ${messageOf(error)}. Make the role the owner of the database, or grant it CREATE on the schema.`
            : `${outdated} as the role that owns the tables.`,
        );
      if (code === lockNotAvailable)
        throw new OpenError(
          'has a table that a long transaction uses, such as a dump: migrate it when that has ended.',
        );
      if (attempt === 50 || !temporary.includes(code)) throw error;
    }
    await sleep(20 + Math.random() * 80);
  }
}
