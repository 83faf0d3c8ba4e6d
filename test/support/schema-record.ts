/** Reads what a store records of its schema, on the database of the suite. */
import { oldestOn, readMigrations } from '../../src/store/migrations.ts';
import { engine, newDatabase, temporaryFolder, textRows } from './store.ts';

const onSqlite = engine === 'SQLite';
export const engineFolder = onSqlite ? 'sqlite' : 'postgres';
export const migrations = readMigrations(engineFolder);

export const newUrl = async () => (onSqlite ? `sqlite:${temporaryFolder()}/store.db` : newDatabase());

/** The number that releases compare, the oldest release, and the versions that were applied. */
export async function recordOf(databaseUrl: string) {
  const [release] = await textRows(databaseUrl, 'SELECT name FROM migration WHERE version = 0');
  const all = onSqlite
    ? 'migration'
    : '(SELECT * FROM migration UNION ALL SELECT * FROM additive_migration) AS applied';
  const applied = await textRows(databaseUrl, `SELECT version FROM ${all} WHERE version > 0 ORDER BY version`);
  const compared = onSqlite
    ? 'SELECT user_version AS n FROM pragma_user_version'
    : 'SELECT max(version) AS n FROM migration';
  const [number] = await textRows(databaseUrl, compared);
  return {
    compared: Number(number?.n),
    release: release?.name,
    applied: applied.map(({ version }) => Number(version)),
  };
}

const { release, version: compared } = oldestOn(migrations);
export const complete = { compared, release, applied: migrations.map(({ version }) => version) };
