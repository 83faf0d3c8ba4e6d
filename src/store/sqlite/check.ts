/** Checks a store for corruption without changing it, and reports its versions and row counts. */

import fs from 'node:fs';
import type Database from 'better-sqlite3';
import { messageOf } from '../../core/errors.ts';
import { jsonFaultsOf, maxIds } from '../pets.ts';
import { type ChecksumResult, checksumProblem, compareChecksum } from './checksum.ts';
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
  checksum: ChecksumResult | null;
  /** Table → rows. */
  rows: Record<string, number>;
  /** One sentence each; empty if the store is sound. */
  problems: string[];
}

/** Faults reported at most by each check: one that affects every row would produce an endless list. */
const maxNamed = 20;

/** The first schema version whose rows of `pet` have the column `json`. */
const jsonVersion = 2;

/**
 * Never throws: every error becomes one of the report's problems. `isBackup`: compare the file with the checksum beside it, if there is one.
 */
export function checkStore(file: string, isBackup = false): Report {
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
  if (isBackup) checkChecksum(report);
  checkContent(report);
  return report;
}

function checkChecksum(report: Report): void {
  const { file, problems } = report;
  // What is not a file has no content to compare: checkContent says so.
  if (!fs.statSync(file, { throwIfNoEntry: false })?.isFile()) return;
  try {
    report.checksum = compareChecksum(file);
    const problem = checksumProblem(file, report.checksum);
    if (problem !== undefined) problems.push(problem);
  } catch (error) {
    problems.push(`The checksum of ${file} cannot be checked: ${messageOf(error)}.`);
  }
}

function checkContent(report: Report): void {
  const { file, problems } = report;
  let connection: Database.Database | undefined;
  try {
    connection = openExisting(file);
    // Reads one snapshot even while a server writes.
    connection.exec('BEGIN');
    report.sqliteVersion = connection.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? null;
    report.schemaVersion = currentVersion(connection);
    problems.push(...faultsOf(connection));
    if (report.schemaVersion >= jsonVersion) problems.push(...checkJson(connection));
    report.rows = countRows(connection);
  } catch (error) {
    problems.push(openError(file, error).message);
  } finally {
    connection?.close();
  }
}

function sizeOf(file: string): number | null {
  const sizes = [file, `${file}-wal`].map((part) => fs.statSync(part, { throwIfNoEntry: false })?.size ?? null);
  return sizes[0] === null ? null : Number(sizes[0]) + Number(sizes[1]);
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
function checkJson(connection: Database.Database): string[] {
  const differing = connection
    .prepare<[], bigint>(
      `SELECT id FROM pet WHERE json IS NOT
         json_object('id', id, 'name', CAST(name AS TEXT), 'categoryId', category_id, 'status', CAST(status AS TEXT))`,
    )
    .pluck();
  const ids: bigint[] = [];
  let count = 0;
  for (const id of differing.iterate()) if (++count <= maxIds) ids.push(id);
  return jsonFaultsOf(ids, count);
}

/** Counts the rows of every table, including tables that other tools have added. */
export function countRows(connection: Database.Database): Record<string, number> {
  const names = connection
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .pluck()
    .all();
  const count = (name: string) =>
    connection
      .prepare(`SELECT count(*) FROM "${name.replaceAll('"', '""')}"`)
      .pluck()
      .get();
  return Object.fromEntries(names.map((name) => [name, Number(count(name))]));
}
