/** Reports whether a server could use a database, its versions, and how many animals can be read. */
import { messageOf } from '../../core/errors.ts';
import { latestOf, readMigrations } from '../migrations.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { readState } from './migrations.ts';
import { openPools } from './open.ts';
import { json } from './pets.ts';
import { readTarget } from './url.ts';

/** Never rejects: every error becomes one of the report's problems. What is null is unknown, because the database cannot be opened. */
export async function checkDatabase(databaseUrl: string, options: OpenOptions) {
  const report = {
    /** The URL without user, password and parameters; empty if it is not a valid one. */
    database: '',
    postgresVersion: null as string | null,
    schemaVersion: null as number | null,
    /** Of this release. */
    latestSchemaVersion: latestOf(readMigrations('postgres')),
    /** The number of animals; without it if they cannot be counted. */
    rows: {} as { pet?: number },
    /** One sentence each; empty if the store can be used. */
    problems: [] as string[],
  };
  try {
    const target = readTarget(databaseUrl);
    report.database = target.label;
    const { pools } = await openPools(target, { ...options, migrate: false });
    try {
      await pools.keyed.alone(async (connection) => {
        const [server] = await connection`SELECT current_setting('server_version') AS "postgresVersion"`;
        const { version: schemaVersion } = await readState(connection);
        Object.assign(report, server, { schemaVersion });
        await connection.begin(async () => {
          // The time-out is meant for requests.
          await connection.unsafe('SET LOCAL statement_timeout = 0');
          const [counted] = await connection.unsafe(
            `SELECT count(length(json)) AS pet FROM (SELECT ${json} FROM pet) AS animal`,
          );
          Object.assign(report.rows, counted);
        });
      });
    } finally {
      await pools.close();
    }
  } catch (error) {
    const reason = messageOf(error);
    report.problems.push(error instanceof OpenError ? reason : `${report.database} cannot be read: ${reason}.`);
  }
  return report;
}
