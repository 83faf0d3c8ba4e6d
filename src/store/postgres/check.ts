/** Reports whether a database can be opened and read, its versions, the settings that protect its data, and its row counts. */
import { ApiError, messageOf } from '../../core/errors.ts';
import { latestOf, readMigrations } from '../migrations.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { readState, tables } from './migrations.ts';
import { openAlone } from './open.ts';
import type { Sql } from './sql.ts';
import { readTarget } from './url.ts';

/** What is null is unknown, because the database cannot be opened. */
export interface DatabaseReport {
  /** The URL without user, password and parameters; empty if it is not a valid one. */
  database: string;
  postgresVersion: string | null;
  schemaVersion: number | null;
  /** The schema version of this release. */
  latestSchemaVersion: number;
  encoding: string | null;
  /** `off`: PostgreSQL does not notice bytes that change on the disk. */
  dataChecksums: string | null;
  fsync: string | null;
  fullPageWrites: string | null;
  synchronousCommit: string | null;
  /** Table → rows. */
  rows: Record<string, number>;
  /** One sentence each; empty if the store can be used. */
  problems: string[];
}

/** Never rejects: every error becomes one of the report's problems. */
export async function checkDatabase(databaseUrl: string, options: OpenOptions): Promise<DatabaseReport> {
  const report: DatabaseReport = {
    database: '',
    postgresVersion: null,
    schemaVersion: null,
    latestSchemaVersion: latestOf(readMigrations('postgres')),
    ...{ encoding: null, dataChecksums: null, fsync: null, fullPageWrites: null, synchronousCommit: null },
    rows: {},
    problems: [],
  };
  try {
    report.database = readTarget(databaseUrl).label;
    const { sql, destroy } = await openAlone(databaseUrl, { ...options, migrate: false });
    try {
      await sql.begin((transaction) => readReport(transaction, report));
    } finally {
      destroy();
    }
  } catch (error) {
    const reason = messageOf(error instanceof ApiError ? error.cause : error);
    report.problems.push(error instanceof OpenError ? reason : `${report.database} cannot be read: ${reason}.`);
  }
  return report;
}

async function readReport(sql: Sql, report: DatabaseReport): Promise<void> {
  // The role's limit is meant for servers.
  await sql.unsafe('SET LOCAL statement_timeout = 0');
  const [settings] = await sql`
    SELECT current_setting('server_version') AS "postgresVersion", current_setting('server_encoding') AS encoding,
      current_setting('data_checksums') AS "dataChecksums", current_setting('fsync') AS fsync,
      current_setting('full_page_writes') AS "fullPageWrites", current_setting('synchronous_commit') AS "synchronousCommit"`;
  const { version: schemaVersion } = await readState(sql);
  Object.assign(report, settings, { schemaVersion });
  for (const table of tables) {
    const [counted] = await sql.unsafe(`SELECT count(*) AS rows FROM ${table}`);
    report.rows[table] = counted?.rows;
  }
}
