/** Opens SQLite files: checks that a file is a store, sets up the connection, and translates errors. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { createPrivate, makeFolder, obstacleTo } from '../files.ts';
import { obstacleOf } from '../migrations.ts';
import { OpenError, type OpenOptions, unavailable } from '../store.ts';
import { currentVersion, latestVersion, migrate, readState } from './migrations.ts';

/** "ANML" in ASCII: marks every store file (https://sqlite.org/pragma.html#pragma_application_id). */
const applicationId = 0x414e4d4c;

/** How long a write waits for another process's write before SQLITE_BUSY. */
const writeTimeoutMs = 5000;

const retryDelayMs = 20;

/** In WAL mode a reader waits only while another connection recovers the WAL. The wait blocks the event loop, so it is short. */
const readTimeoutMs = 250;

export type Connection = Database.Database;

/**
 * Creates the store in `file`, for this user only, if there is none, and migrates it to this release's schema. Throws OpenError. If the file
 * belongs to another application or needs a newer release, its bytes stay unchanged.
 */
export function prepareStore(file: string, { now, onMigration }: OpenOptions): void {
  try {
    makeFolder(path.dirname(file));
    retryWhileBusy(() => {
      if (fs.existsSync(file)) inspectAfterCrash(file);
      // SQLite gives the WAL the mode of the file.
      else createPrivate(file);
      const connection = openConnection(file);
      try {
        migrate(connection, applicationId, now(), onMigration);
        checkpoint(connection);
      } finally {
        connection.close();
      }
    });
  } catch (error) {
    throw openError(file, error);
  }
}

/** Retries on SQLITE_BUSY: SQLite itself does not wait while another process changes the journal mode or recovers a WAL. */
function retryWhileBusy(act: () => void): void {
  const deadline = Date.now() + writeTimeoutMs;
  for (;;) {
    try {
      act();
      return;
    } catch (error) {
      if (!String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY') || Date.now() >= deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryDelayMs);
    }
  }
}

/** Opens a connection for writing. */
export function openConnection(file: string): Connection {
  const connection = new Database(file, { timeout: writeTimeoutMs });
  setUp(connection);
  if (connection.pragma('journal_mode', { simple: true }) !== 'wal') connection.pragma('journal_mode = WAL');
  // better-sqlite3 is compiled to use NORMAL in WAL mode unless each connection sets another level.
  connection.pragma('synchronous = FULL');
  // SQLite's automatic checkpoint after a commit hides its errors, including a failed fsync of the file.
  connection.pragma('wal_autocheckpoint = 0');
  return connection;
}

/** Moves the WAL into the file. Throws if that fails. Frames that another process still reads stay until the next checkpoint. */
export function checkpoint(connection: Connection): void {
  connection.pragma('wal_checkpoint(PASSIVE)');
}

/** Opens a read-only connection to an existing store. */
export function openReader(file: string): Connection {
  const connection = new Database(file, { timeout: readTimeoutMs, readonly: true });
  setUp(connection);
  return connection;
}

function setUp(connection: Connection): void {
  connection.defaultSafeIntegers(true);
  connection.pragma('foreign_keys = ON');
  // The file may come from an untrusted source: its schema must not call application functions (https://sqlite.org/security.html).
  connection.pragma('trusted_schema = OFF');
}

/**
 * Inspects a file that may have a hot rollback journal: a process left it that was killed while it created the store, and a read-only
 * connection cannot roll it back (https://sqlite.org/rescode.html#readonly_rollback). Files of other applications stay as they are.
 */
function inspectAfterCrash(file: string): void {
  try {
    inspect(file);
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'SQLITE_READONLY_ROLLBACK' || !isCreated(file)) throw error;
    const connection = new Database(file, { timeout: writeTimeoutMs });
    try {
      connection.prepare('SELECT 1 FROM sqlite_schema').get();
    } finally {
      connection.close();
    }
    inspect(file);
  }
}

/** Whether the file carries the application id, or has no more than the first page, and so no table (https://sqlite.org/fileformat.html). */
function isCreated(file: string): boolean {
  const header = Buffer.alloc(100);
  const descriptor = fs.openSync(file, 'r');
  try {
    fs.readSync(descriptor, header);
    return header.readUInt32BE(68) === applicationId || fs.fstatSync(descriptor).size <= header.readUInt16BE(16);
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Reads a file through a read-only connection. Throws OpenError unless it is empty or a store that this release supports. */
function inspect(file: string): void {
  requireFile(file);
  const connection = new Database(file, { readonly: true });
  try {
    if (!isEmpty(connection)) identify(connection, file);
  } finally {
    connection.close();
  }
}

function isEmpty(connection: Connection): boolean {
  const hasSchema = connection.prepare('SELECT 1 FROM sqlite_schema').get() !== undefined;
  return !hasSchema && applicationIdOf(connection) === 0 && currentVersion(connection) === 0;
}

/** Throws OpenError unless the database is a store whose schema this release can run on, or an older one. */
function identify(connection: Connection, file: string): void {
  if (applicationIdOf(connection) !== applicationId)
    throw new OpenError(`${file} is a database of another application.`);
  const obstacle = obstacleOf(readState(connection), latestVersion());
  if (obstacle !== undefined) throw new OpenError(`${file} ${obstacle}`);
}

function applicationIdOf(connection: Connection): number {
  return Number(connection.pragma('application_id', { simple: true }));
}

function requireFile(file: string): void {
  const found = fs.statSync(file, { throwIfNoEntry: false });
  if (!found) throw new OpenError(`${file} does not exist.`);
  if (!found.isFile()) throw new OpenError(`${file} is not a file.`);
}

/** Opens an existing store read-only, without migrating it. Throws OpenError. */
export function openExisting(file: string): Connection {
  let connection: Connection | undefined;
  try {
    requireFile(file);
    connection = openReader(file);
    if (isEmpty(connection)) throw incomplete(file);
    identify(connection, file);
    return connection;
  } catch (error) {
    connection?.close();
    const { code } = error as { code?: unknown };
    if (code === 'SQLITE_READONLY_ROLLBACK' && isCreated(file)) throw incomplete(file);
    throw openError(file, error);
  }
}

/** For a store whose creation was interrupted: only a connection that can write completes it. */
function incomplete(file: string): OpenError {
  return new OpenError(
    `${file} holds no store yet, as its creation was interrupted: start the server or run animal-store migrate to complete it.`,
  );
}

/** Errors of the system and of SQLite that may come from permissions, which their messages do not name. */
const inaccessible = /^(EACCES|EPERM|EROFS|ENOTDIR|EEXIST|ENOENT|SQLITE_(CANTOPEN|READONLY))/;

/** Turns an error about `file` into a sentence for the operator; returns an OpenError unchanged. */
export function openError(file: string, error: unknown): OpenError {
  if (error instanceof OpenError) return error;
  const { code, message } = error as { code?: string; message: string };
  if (code === 'SQLITE_NOTADB') return new OpenError(`${file} is not an SQLite database.`, { cause: error });
  const reason = inaccessible.test(String(code)) ? obstacleTo(file) : undefined;
  return new OpenError(`${file} cannot be opened: ${reason ?? message}.`, { cause: error });
}

// Primary result codes (https://sqlite.org/rescode.html) caused by the disk, the file or another process, not by a bug in this code.
const environmental = /^SQLITE_(BUSY|LOCKED|NOMEM|READONLY|IOERR|CORRUPT|FULL|CANTOPEN|PROTOCOL|NOTADB)(_|$)/;

/** Turns a driver error into ApiError `service_unavailable` if the environment caused it; returns any other error unchanged. */
export function translate(error: unknown): unknown {
  if (!environmental.test(String((error as { code?: unknown }).code))) return error;
  return unavailable(error);
}
