/** Looks a store through without changing it: is it whole, whose is it, and how much does it hold? */
import fs from 'node:fs';
import { type Connection, openError, openExisting } from './connection.ts';
import { currentVersion, latestVersion } from './migrations.ts';

export interface Report {
  file: string;
  /** With the log beside it; null where there is no file. */
  bytes: number | null;
  sqliteVersion: string | null;
  schemaVersion: number | null;
  /** What this release reads and writes; an older store is brought to it when it is opened. */
  latestSchemaVersion: number;
  /** Table → rows. */
  rows: Record<string, number>;
  /** A sentence each; none where the store is sound. */
  problems: string[];
}

/** So many faults are named: one that concerns all rows would go on and on. */
const maxNamed = 20;

/** Never throws: whatever is wrong is one of the report's problems. */
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
    // One snapshot, also while a server writes.
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
    ...dangling.map(
      ({ child, row, parent }) => `Row ${row} of ${child} refers to a row of ${parent} that is not there.`,
    ),
  ];
}

/** Rows of each table, also of those that a tool beside us has added. */
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
