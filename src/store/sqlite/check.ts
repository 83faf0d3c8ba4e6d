/** Checks a store for corruption without changing it, and reports its versions and row counts. */
import type Database from 'better-sqlite3';
import { currentVersion, latestVersion } from './migrations.ts';
import { openError, openExisting } from './store-file.ts';

/**
 * Each returns a sentence for each fault, at most 20: one that affects every row would produce an endless list. The third compares the stored JSON of
 * each animal with its other columns. Nothing else would find a byte that changed within a text: SQLite checks neither the text of a column
 * without an index nor a generated column. CAST: json_object would throw on a BLOB, which integrity_check reports.
 */
const checks = [
  `SELECT 'integrity_check: ' || replace(integrity_check, char(10), ' ') || '.' FROM pragma_integrity_check WHERE integrity_check <> 'ok' LIMIT 20`,
  `SELECT 'Row ' || rowid || ' of ' || "table" || ' refers to a missing row of ' || parent || '.' FROM pragma_foreign_key_check LIMIT 20`,
  `SELECT 'Row ' || id || ' of pet has JSON that differs from its other columns.' FROM pet WHERE json IS NOT
     json_object('id', id, 'name', CAST(name AS TEXT), 'categoryId', category_id, 'status', CAST(status AS TEXT)) LIMIT 20`,
];

/** Never throws: every error becomes one of the report's problems. */
export function checkStore(file: string) {
  const report = {
    file,
    sqliteVersion: null as string | null,
    schemaVersion: null as number | null,
    /** Of this release. An older store is migrated when a server or command opens it. */
    latestSchemaVersion: latestVersion(),
    /** The number of animals; without it if they cannot be counted. */
    rows: {} as { pet?: number },
    /** One sentence each; empty if the store is sound. */
    problems: [] as string[],
  };
  const { problems } = report;
  let connection: Database.Database | undefined;
  try {
    connection = openExisting(file);
    // Reads one snapshot even while a server writes.
    connection.exec('BEGIN');
    report.sqliteVersion = connection.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? null;
    report.schemaVersion = currentVersion(connection);
    for (const text of checks) problems.push(...connection.prepare<[], string>(text).pluck().all());
    report.rows = { pet: Number(connection.prepare('SELECT count(*) FROM pet').pluck().get()) };
  } catch (error) {
    problems.push(openError(file, error).message);
  } finally {
    connection?.close();
  }
  return report;
}
