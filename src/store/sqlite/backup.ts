/** Backs up a store while it is in use. The backup is complete, checked and on disk when the command succeeds. */
import fs from 'node:fs';
import Database from 'better-sqlite3';
import { messageOf } from '../../core/errors.ts';
import type { Warn } from '../files.ts';
import { CopyError } from '../store.ts';
import { checkStore } from './check.ts';
import { expectAnimals, placeLocked, replaceFile } from './replace.ts';

/** 4 MiB per step; other work can run between two steps. */
const pagesPerStep = 1000;

/**
 * Writes a backup of `source`, and replaces the file if it exists. Resolves to the number of animals. Rejects with CopyError or the error of a
 * system call.
 */
export async function backupStore(source: Database.Database, file: string, warn: Warn): Promise<number> {
  const write = async (partial: string) => {
    await copyStore(source, partial);
    const { problems, rows } = checkStore(partial);
    if (problems.length > 0) throw new CopyError(`The copy of ${source.name} is not sound: ${problems[0]}`);
    return rows.pet as number;
  };
  const animals = await replaceFile(file, 0o600, warn, write, (partial) =>
    placeLocked(partial, file, () => fs.renameSync(partial, file)),
  );
  expectAnimals(file, (read) => read === animals);
  return animals;
}

/** Copies one snapshot of `source` to the empty file `copy`, which is then a single file without a WAL. Rejects with CopyError. */
export async function copyStore(source: Database.Database, copy: string): Promise<void> {
  try {
    // The transaction makes all steps copy one snapshot. Without it, each commit by another process would restart the copy, which would
    // never finish under load (https://sqlite.org/backup.html). It begins with the first read.
    source.exec('BEGIN; SELECT 1 FROM sqlite_schema');
    await source.backup(copy, { progress: () => pagesPerStep });
    source.exec('COMMIT');
    const connection = new Database(copy);
    // SQLite could not open a WAL-mode file on read-only media.
    connection.pragma('journal_mode = DELETE');
    connection.close();
  } catch (error) {
    throw new CopyError(`${copy} cannot be written: ${messageOf(error)}.`, { cause: error });
  }
}
