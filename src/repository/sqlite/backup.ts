/** A copy of a store that is in use: whole, checked and on disk, or none. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { makeFile } from '../files.ts';
import { CopyError } from '../store.ts';
import { checkStore, countRows } from './check.ts';
import type { Connection } from './connection.ts';

/** Told how many of all units are done. */
export type OnProgress = (done: number, total: number) => void;

/** Table → rows. */
export type Rows = Record<string, number>;

/** What SQLite keeps beside a store while it is open, or where it was not closed. */
export const sidecarFiles = ['-wal', '-shm', '-journal'];

/** 4 MiB between two looks at the clock. */
const pagesAtOnce = 1000;

/**
 * Copies the store behind `source` to the new file `copy`, as it is at this instant, and counts its rows by table. The copy is one
 * file, without a log beside it. Throws CopyError, with nothing left at `copy`.
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
  // In a transaction all steps copy one snapshot. Without it each commit of another process would begin the copy anew, and under
  // load it would never end.
  source.exec('BEGIN');
  const rows = countRows(source);
  await source.backup(path.resolve(copy), {
    progress({ totalPages, remainingPages }) {
      onProgress(totalPages - remainingPages, totalPages);
      return pagesAtOnce;
    },
  });
  source.exec('COMMIT');
  return rows;
}

/** A file in WAL mode could not be opened on a medium that is read-only. */
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
