/** Checks a store for corruption without changing it, and reports its versions and row counts. */
import fs from 'node:fs';
import { type Connection, openError, openExisting } from './connection.ts';
import { currentVersion, latestVersion } from './migrations.ts';

export interface Report {
  file: string;
  /** Size of the file and its WAL; null if the file does not exist. */
  bytes: number | null;
  sqliteVersion: string | null;
  schemaVersion: number | null;
  /** The schema version of this release. An older store is migrated when a server or command opens it. */
  latestSchemaVersion: number;
  /** Table → rows. */
  rows: Record<string, number>;
  /** One sentence each; empty if the store is sound. */
  problems: string[];
}

/** Faults reported at most by each check: one that affects every row would produce an endless list. */
const maxNamed = 20;

/** Never throws: every error becomes one of the report's problems. */
export function checkStore(file: string): Report {
  const report: Report = {
    file,
    bytes: sizeOf(file),
    sqliteVersion: null,
    schemaVersion: null,
    latestSchemaVersion: latestVersion(),
    rows: {},
    problems: [],
  };
  let connection: Connection | undefined;
  try {
    connection = openExisting(file);
    // Reads one snapshot even while a server writes.
    connection.exec('BEGIN');
    report.sqliteVersion = connection.prepare('SELECT sqlite_version()').pluck().get() as string;
    report.schemaVersion = currentVersion(connection);
    report.problems.push(...faultsOf(connection));
    report.rows = countRows(connection);
  } catch (error) {
    report.problems.push(openError(file, error).message);
  } finally {
    connection?.close();
  }
  return report;
}

function sizeOf(file: string): number | null {
  const sizes = [file, `${file}-wal`].map((part) => fs.statSync(part, { throwIfNoEntry: false })?.size ?? null);
  return sizes[0] === null ? null : Number(sizes[0]) + Number(sizes[1]);
}

function faultsOf(connection: Connection): string[] {
  const damages = connection.prepare(`PRAGMA integrity_check(${maxNamed})`).pluck().all() as string[];
  const dangling = connection
    .prepare('SELECT "table" AS child, rowid AS row, parent FROM pragma_foreign_key_check LIMIT ?')
    .all(maxNamed) as { child: string; row: bigint; parent: string }[];
  return [
    ...damages.filter((text) => text !== 'ok').map((text) => `integrity_check: ${text.replaceAll('\n', ' ')}.`),
    ...dangling.map(({ child, row, parent }) => `Row ${row} of ${child} refers to a missing row of ${parent}.`),
  ];
}

/** Counts the rows of every table, including tables that other tools have added. */
export function countRows(connection: Connection): Record<string, number> {
  const names = connection
    .prepare(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .pluck()
    .all() as string[];
  const count = (name: string) =>
    connection
      .prepare(`SELECT count(*) FROM "${name.replaceAll('"', '""')}"`)
      .pluck()
      .get();
  return Object.fromEntries(names.map((name) => [name, Number(count(name))]));
}
