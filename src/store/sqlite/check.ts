/** Checks a store for corruption without changing it, and reports its versions and row counts. */
import fs from 'node:fs';
import type Database from 'better-sqlite3';
import { jsonFaultsOf, maxIds } from '../pets.ts';
import { checksumFile, matchesChecksum } from './checksum.ts';
import { currentVersion, latestVersion } from './migrations.ts';
import { openError, openExisting } from './store-file.ts';

export interface Report {
  file: string;
  /** Size of the file and its WAL; null if the file does not exist. */
  bytes: number | null;
  sqliteVersion: string | null;
  schemaVersion: number | null;
  /** The schema version of this release. An older store is migrated when a server or command opens it. */
  latestSchemaVersion: number;
  /** Null if the file was not compared with a checksum. */
  checksum: 'matches' | 'differs' | 'missing' | null;
  /** The number of animals; without it if they cannot be counted. */
  rows: { pet?: number };
  /** One sentence each; empty if the store is sound. */
  problems: string[];
}

/** Faults reported at most by each check: one that affects every row would produce an endless list. */
const maxNamed = 20;

/** Never rejects: every error becomes one of the report's problems. `isBackup`: compare the file with the checksum beside it, if there is one. */
export async function checkStore(file: string, isBackup = false): Promise<Report> {
  const report: Report = {
    file,
    bytes: sizeOf(file),
    sqliteVersion: null,
    schemaVersion: null,
    latestSchemaVersion: latestVersion(),
    checksum: null,
    rows: {},
    problems: [],
  };
  const { problems } = report;
  let connection: Database.Database | undefined;
  try {
    if (isBackup) await checkChecksum(report);
    connection = openExisting(file);
    // Reads one snapshot even while a server writes.
    connection.exec('BEGIN');
    report.sqliteVersion = connection.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? null;
    report.schemaVersion = currentVersion(connection);
    problems.push(...faultsOf(connection), ...jsonFaults(connection));
    report.rows = { pet: Number(connection.prepare('SELECT count(*) FROM pet').pluck().get()) };
  } catch (error) {
    problems.push(openError(file, error).message);
  } finally {
    connection?.close();
  }
  return report;
}

async function checkChecksum(report: Report): Promise<void> {
  const { file, problems } = report;
  const matches = await matchesChecksum(file);
  report.checksum = matches === undefined ? 'missing' : matches ? 'matches' : 'differs';
  if (matches === false)
    problems.push(`${file} does not match ${checksumFile(file)}: one of the two has changed since the backup.`);
}

function sizeOf(file: string): number | null {
  const [size, walSize = 0] = [file, `${file}-wal`].map((part) => fs.statSync(part, { throwIfNoEntry: false })?.size);
  return size === undefined ? null : size + walSize;
}

function faultsOf(connection: Database.Database): string[] {
  const damages = connection.prepare<[], string>(`PRAGMA integrity_check(${maxNamed})`).pluck().all();
  const dangling = connection
    .prepare<[number], { child: string; row: bigint; parent: string }>(
      'SELECT "table" AS child, rowid AS row, parent FROM pragma_foreign_key_check LIMIT ?',
    )
    .all(maxNamed);
  return [
    ...damages.filter((text) => text !== 'ok').map((text) => `integrity_check: ${text.replaceAll('\n', ' ')}.`),
    ...dangling.map(({ child, row, parent }) => `Row ${row} of ${child} refers to a missing row of ${parent}.`),
  ];
}

/**
 * Compares the stored JSON of each animal with its other columns. Nothing else would find a byte that changed within a text: SQLite checks
 * neither the text of a column without an index nor a generated column. CAST: json_object would throw on a BLOB, which integrity_check reports.
 */
function jsonFaults(connection: Database.Database): string[] {
  const differing = connection
    .prepare<[number], { id: bigint; total: bigint }>(
      `SELECT id, count(*) OVER () AS total FROM pet WHERE json IS NOT
         json_object('id', id, 'name', CAST(name AS TEXT), 'categoryId', category_id, 'status', CAST(status AS TEXT)) LIMIT ?`,
    )
    .all(maxIds);
  return jsonFaultsOf(
    differing.map(({ id }) => id),
    Number(differing[0]?.total ?? 0),
  );
}
