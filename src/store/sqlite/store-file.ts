/** The file of a store: creates and migrates it, checks that it is a store, and tells the operator why it cannot be opened. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { codeOf, messageOf } from '../../core/errors.ts';
import { isOther, makeFolder, sidecarFiles, sidecarsOf } from '../files.ts';
import { obstacleOf } from '../migrations.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { checkpoint, openConnection, openReader, primaryCodeOf, writeTimeoutMs } from './connection.ts';
import { currentVersion, differencesOf, latestVersion, migrate, readState } from './migrations.ts';

/** "ANML" in ASCII: marks every store file (https://sqlite.org/pragma.html#pragma_application_id). */
const applicationId = 0x414e4d4c;

const retryDelayMs = 20;

/**
 * Creates the store in `file`, for this user only, if there is none, and migrates it to this release's schema. Returns the names of the migrations
 * that it applied. Throws OpenError. If the file belongs to another application or needs a newer release, its bytes stay unchanged.
 */
export function prepareStore(file: string, { now, logger }: Pick<OpenOptions, 'now' | 'logger'>): string[] {
  try {
    makeFolder(path.dirname(file), (sentence) => logger?.warn(sentence));
    return retryWhileBusy(() => {
      refuseLost(file);
      // Before the store: another process may be creating it.
      const obstacle = sidecarsOf(file);
      if (fs.existsSync(file))
        openFor(file, (connection) => {
          isStore(connection, file);
          connection.close();
        });
      else if (obstacle) throw new OpenError(obstacle);
      // SQLite would make it readable for everybody. It gives the WAL the mode of the file.
      else fs.closeSync(fs.openSync(file, 'a', 0o600));
      const connection = openConnection(file);
      try {
        const applied = migrate(connection, applicationId, now());
        checkpointIfRoom(connection);
        return applied;
      } finally {
        connection.close();
      }
    });
  } catch (error) {
    throw openError(file, error);
  }
}

/** https://sqlite.org/fileformat.html#pages */
const leastPageBytes = 512;

/** https://sqlite.org/fileformat.html#file_format_version_numbers: 1, or 2 for WAL mode. */
const [writeVersionAt, rollbackVersion] = [18, 1];

/**
 * Throws OpenError if the store, or a file that SQLite keeps beside it, is no regular file; if the store is too small; or if it is missing or empty although
 * its WAL is not. Opening such a store, even to read, makes SQLite delete the WAL, and with it writes that had not reached the file. (A process that was
 * killed while it created the store leaves an empty file and a journal.) Also if the WAL is not the store's: a file was put in the place of another one.
 */
export function refuseLost(file: string): void {
  const other = ['', ...sidecarFiles].find((suffix) => isOther(file + suffix));
  if (other !== undefined) throw new OpenError(`${file}${other} is not a file.`);
  const sizeOf = (suffix: string) => fs.statSync(file + suffix, { throwIfNoEntry: false })?.size;
  // The logs first: another process may be creating the store. A command that only reads leaves an empty one.
  const [wal, journal, size] = ['-wal', '-journal', ''].map(sizeOf);
  const lost = (wal && !size && '-wal') || (journal && size === undefined && '-journal');
  if (lost)
    throw new OpenError(
      `${file} is missing or empty, but not ${file}${lost}. Move the store back, or ${file}${lost} elsewhere.`,
    );
  // The log again: whoever leaves WAL mode removes the log before the mark in the file, and whoever enters it makes the mark first.
  if (wal && readHeader(file)[writeVersionAt] === rollbackVersion && sizeOf('-wal'))
    throw new OpenError(
      `${file} is not in WAL mode, so ${file}-wal belongs to another file, and SQLite would apply it to this one: move ${file}-wal elsewhere${fs.existsSync(`${file}-shm`) ? `, and delete ${file}-shm` : ''}.`,
    );
  // SQLite takes less than a page for an empty database, and would overwrite it.
  if (size && size < leastPageBytes && !wal && !journal)
    throw new OpenError(`${file} is no store: it has ${size} byte${size === 1 ? '' : 's'}.`);
}

/**
 * A checkpoint syncs the WAL first, so what an earlier process left there is then on disk, although its own fsync may have failed. If the disk is
 * full, or a quota is reached (SQLITE_IOERR_WRITE), it stays in the WAL, and reads find it there: their server must start.
 */
function checkpointIfRoom(connection: Database.Database): void {
  try {
    checkpoint(connection);
  } catch (error) {
    if (!['SQLITE_FULL', 'SQLITE_IOERR_WRITE'].includes(codeOf(error))) throw error;
  }
}

/** Retries on SQLITE_BUSY: SQLite itself does not wait while another process changes the journal mode or recovers a WAL. */
export function retryWhileBusy<Result>(act: () => Result): Result {
  const deadline = performance.now() + writeTimeoutMs;
  for (;;) {
    try {
      return act();
    } catch (error) {
      const code = primaryCodeOf(error instanceof OpenError ? error.cause : error);
      if (code !== 'SQLITE_BUSY' || performance.now() >= deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryDelayMs);
    }
  }
}

/** The header of an SQLite database, filled with zeros if the file is shorter. Closing the file drops this process's locks on it. */
export function readHeader(file: string): Buffer {
  const header = Buffer.alloc(100);
  const descriptor = fs.openSync(file, 'r');
  fs.readSync(descriptor, header);
  fs.closeSync(descriptor);
  return header;
}

/**
 * False if the database is empty. Throws OpenError unless this release can run on its schema, or migrate it. A trigger that others have added can
 * delete animals.
 */
function isStore(connection: Database.Database, file: string): boolean {
  // One snapshot: another process may be creating the store.
  const look = connection.transaction(() => {
    const id = Number(connection.pragma('application_id', { simple: true }));
    const hasSchema = connection.prepare('SELECT 1 FROM sqlite_schema').get() !== undefined;
    if (id === 0 && !hasSchema && currentVersion(connection) === 0) return false;
    if (id !== applicationId) throw new OpenError(`${file} is a database of another application.`);
    const obstacle = obstacleOf(readState(connection), latestVersion());
    if (obstacle !== undefined) throw new OpenError(`${file} ${obstacle}`);
    const differences = differencesOf(connection).slice(0, 20).join(', ');
    if (differences) throw new OpenError(`${file} has a schema that no release makes: ${differences}.`);
    return true;
  });
  return look();
}

/** Only a connection that can write completes it. */
const incomplete =
  'holds no store: a copy or a command was interrupted. If it is no backup, but the store itself, start the server or run animal-store migrate to complete it.';

/**
 * Lets SQLite roll back what a process had not committed in a store when it was killed, while it created it or locked it to restore a backup: a connection
 * that only reads cannot (https://sqlite.org/rescode.html#readonly_rollback). Files of other applications stay as they are: one with the application id, or
 * with no more than the first page, and so no table (https://sqlite.org/fileformat.html), is none of them.
 */
function recover(file: string): void {
  if (!fs.existsSync(`${file}-journal`)) return;
  const header = readHeader(file);
  if (header.readUInt32BE(68) !== applicationId && fs.statSync(file).size > header.readUInt16BE(16)) return;
  const connection = new Database(file);
  try {
    connection.pragma('schema_version');
  } finally {
    connection.close();
  }
}

/** Opens a file read-only. Returns what `use` makes of the connection; if it throws, closes the connection. Throws OpenError. */
export function openFor<Result>(file: string, use: (connection: Database.Database) => Result): Result {
  let connection: Database.Database | undefined;
  try {
    refuseLost(file);
    recover(file);
    connection = openReader(file);
    return use(connection);
  } catch (error) {
    connection?.close();
    throw openError(file, error);
  }
}

/** Opens an existing store read-only, without migrating it. Throws OpenError. */
export const openExisting = (file: string) =>
  openFor(file, (connection) => {
    if (isStore(connection, file)) return connection;
    throw new OpenError(`${file} ${incomplete}`);
  });

const sentences: Record<string, string> = {
  ENOENT: 'does not exist.',
  SQLITE_READONLY_ROLLBACK: incomplete,
};

/** Turns an error about `file` into a sentence for the operator; returns an OpenError unchanged. */
export function openError(file: string, error: unknown): OpenError {
  if (error instanceof OpenError) return error;
  const cause = systemErrorOf(file, error) ?? error;
  return new OpenError(`${file} ${sentences[codeOf(cause)] ?? `cannot be opened: ${messageOf(cause)}.`}`, { cause });
}

/** As large as the `-shm` file, which each connection needs (https://sqlite.org/walformat.html#the_wal_index_file_format). */
const shmBytes = 32 * 1024;

/**
 * What the system says about the file and its folder: SQLite's messages do not name a permission, a quota or a lack of inodes. Undefined if it denies
 * nothing.
 */
function systemErrorOf(file: string, error: unknown): unknown {
  if (error instanceof Error && 'syscall' in error) return error;
  if (['SQLITE_NOTADB', 'SQLITE_CORRUPT'].includes(primaryCodeOf(error))) return undefined;
  const folder = path.dirname(file);
  try {
    fs.closeSync(fs.openSync(file, 'r+'));
    fs.accessSync(folder, fs.constants.W_OK);
    const trial = path.join(folder, `trial-${randomUUID()}`);
    try {
      fs.writeFileSync(trial, Buffer.alloc(shmBytes));
    } finally {
      fs.rmSync(trial, { force: true });
    }
    return undefined;
  } catch (denial) {
    return denial;
  }
}
