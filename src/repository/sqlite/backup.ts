/** Backs up a store while it is in use. The backup is complete, verified and on disk, or does not exist. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { makeFile } from '../files.ts';
import { CopyError } from '../store.ts';
import { checkStore, countRows } from './check.ts';
import type { Connection } from './connection.ts';

/** Called with the units done so far and the total. */
export type OnProgress = (done: number, total: number) => void;

/** Table → rows. */
export type Rows = Record<string, number>;

/** Suffixes of the files that SQLite keeps next to a store while it is open, or after a crash. */
export const sidecarFiles = ['-wal', '-shm', '-journal'];

/** 4 MiB per step; other work can run between two steps. */
const pagesPerStep = 1000;

/**
 * Copies one snapshot of `source` to the new file `copy`, and returns the number of rows in each table. The copy is a single file without
 * a WAL. Rejects with CopyError and leaves no file at `copy`.
 */
export async function copyStore(source: Connection, copy: string, onProgress: OnProgress): Promise<Rows> {
  try {
    removeStore(copy);
    return await makeFile(copy, 0o600, async () => {
      const rows = await copyPages(source, copy, onProgress);
      makeSingleFile(copy);
      compare(copy, rows);
      return rows;
    });
  } catch (error) {
    if (error instanceof CopyError) throw error;
    throw new CopyError(`${copy} cannot be written: ${(error as Error).message}.`, { cause: error });
  }
}

async function copyPages(source: Connection, copy: string, onProgress: OnProgress): Promise<Rows> {
  // The transaction makes all steps copy one snapshot. Without it, each commit by another process would restart the copy, which would
  // never finish under load (https://sqlite.org/backup.html).
  source.exec('BEGIN');
  const rows = countRows(source);
  await source.backup(path.resolve(copy), {
    progress({ totalPages, remainingPages }) {
      onProgress(totalPages - remainingPages, totalPages);
      return pagesPerStep;
    },
  });
  source.exec('COMMIT');
  return rows;
}

/** Leaves WAL mode: SQLite could not open a WAL-mode file on read-only media. */
function makeSingleFile(copy: string): void {
  const connection = new Database(copy);
  connection.pragma('journal_mode = DELETE');
  connection.close();
}

function compare(copy: string, rows: Rows): void {
  const report = checkStore(copy);
  const [problem] = report.problems;
  if (problem !== undefined) throw new Error(problem.replace(/\.$/, ''));
  for (const [table, count] of Object.entries(rows)) {
    if (report.rows[table] !== count)
      throw new Error(`it holds ${report.rows[table]} rows of ${table} instead of ${count}`);
  }
}

export function removeStore(file: string): void {
  for (const suffix of ['', ...sidecarFiles]) fs.rmSync(file + suffix, { force: true });
}
