/** Backs up a store while it is in use. The backup is complete, verified and on disk, or does not exist. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { messageOf } from '../../core/errors.ts';
import { makeFile, sync } from '../files.ts';
import { CopyError } from '../store.ts';
import { checkStore, countRows } from './check.ts';
import { writeChecksum } from './checksum.ts';

/** Called with the units done so far and the total. */
export type OnProgress = (done: number, total: number) => void;

/** Table → rows. */
export type Rows = Record<string, number>;

/** Suffixes of the files that SQLite keeps next to a store while it is open, or after a crash. */
export const sidecarFiles = ['-wal', '-shm', '-journal'];

/** 4 MiB per step; other work can run between two steps. */
const pagesPerStep = 1000;

export interface OutputFile {
  file: string;
  /** Its temporary name in the same folder, which no other process uses. */
  partial: string;
}

/**
 * Writes a backup of `source` and its checksum, and replaces both files if they exist. Both are on disk when this resolves. Rejects with
 * CopyError, or the error of a system call, and then leaves no temporary file.
 */
export async function backupStore(
  source: Database.Database,
  copy: OutputFile,
  checksum: OutputFile,
  onProgress: OnProgress,
): Promise<Rows> {
  try {
    const rows = await copyStore(source, copy.partial, onProgress);
    await publish(copy, checksum);
    return rows;
  } finally {
    removeStore(copy.partial);
    fs.rmSync(checksum.partial, { force: true });
  }
}

async function publish(copy: OutputFile, checksum: OutputFile): Promise<void> {
  const folder = path.dirname(copy.file);
  let descriptor = fs.openSync(copy.partial, 'r');
  try {
    await writeChecksum(descriptor, copy.file, checksum.partial);
    // First remove the old checksum: a kill between two steps leaves a backup without a checksum, never with that of another backup.
    fs.rmSync(checksum.file, { force: true });
    sync(folder);
    fs.renameSync(copy.partial, copy.file);
    fs.renameSync(checksum.partial, checksum.file);
    // If another process replaced the backup meanwhile, the checksum may belong to either of the two.
    while (!isOpenAs(descriptor, copy.file)) {
      fs.closeSync(descriptor);
      descriptor = fs.openSync(copy.file, 'r');
      await writeChecksum(descriptor, copy.file, checksum.partial);
      fs.renameSync(checksum.partial, checksum.file);
    }
    sync(folder);
  } finally {
    fs.closeSync(descriptor);
  }
}

function isOpenAs(descriptor: number, file: string): boolean {
  return fs.fstatSync(descriptor).ino === fs.statSync(file, { throwIfNoEntry: false })?.ino;
}

/**
 * Copies one snapshot of `source` to the new file `copy`, and returns the number of rows in each table. The copy is a single file without
 * a WAL. Rejects with CopyError and leaves no file at `copy`.
 */
export async function copyStore(source: Database.Database, copy: string, onProgress: OnProgress): Promise<Rows> {
  try {
    removeStore(copy);
    return await makeFile(copy, 0o600, async () => {
      const rows = await copyPages(source, copy, onProgress);
      makeSingleFile(copy);
      compare(source, copy, rows);
      return rows;
    });
  } catch (error) {
    if (error instanceof CopyError) throw error;
    throw new CopyError(`${copy} cannot be written: ${messageOf(error)}.`, { cause: error });
  }
}

async function copyPages(source: Database.Database, copy: string, onProgress: OnProgress): Promise<Rows> {
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

function compare(source: Database.Database, copy: string, rows: Rows): void {
  const report = checkStore(copy);
  const [problem] = report.problems;
  if (problem !== undefined) throw new CopyError(`The copy of ${source.name} is not sound: ${problem}`);
  for (const [table, count] of Object.entries(rows)) {
    if (report.rows[table] !== count)
      throw new Error(`it holds ${report.rows[table]} rows of ${table} instead of ${count}`);
  }
}

export function removeStore(file: string): void {
  for (const suffix of ['', ...sidecarFiles]) fs.rmSync(file + suffix, { force: true });
}
