/** Opening an SQLite file: whose file it is, how it is set up, and what its errors mean. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { OpenError, type OpenOptions, unavailable } from '../store.ts';
import { currentVersion, latestVersion, migrate } from './migrations.ts';

/** "ANML" in ASCII, in every file of ours (https://sqlite.org/pragma.html#pragma_application_id). */
const applicationId = 0x414e4d4c;

/** How long a write waits for another process's before SQLITE_BUSY. */
const writeTimeoutMs = 5000;

const askAgainMs = 20;

/** In WAL mode readers wait for nobody but a recovery; the whole server would wait with them. */
const readTimeoutMs = 250;

export type Connection = Database.Database;

/**
 * Makes `file` ready to be opened: creates the store where there is none, and brings it to this release's schema.
 * Throws OpenError, leaving the file's bytes as they are, where it is not ours to write.
 */
export function prepareStore(file: string, { now, onMigration }: OpenOptions): void {
  try {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    retryWhileBusy(() => {
      if (fs.existsSync(file)) inspect(file);
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

/** Asks again for a while: SQLite itself does not wait for the other processes that change the journal mode or recover a WAL. */
function retryWhileBusy(act: () => void): void {
  const deadline = Date.now() + writeTimeoutMs;
  for (;;) {
    try {
      act();
      return;
    } catch (error) {
      if (!String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY') || Date.now() >= deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, askAgainMs);
    }
  }
}

/** Opens a connection that writes. */
export function openConnection(file: string): Connection {
  const connection = new Database(file, { timeout: writeTimeoutMs });
  setUp(connection);
  if (connection.pragma('journal_mode', { simple: true }) !== 'wal') connection.pragma('journal_mode = WAL');
  // better-sqlite3 is compiled to fall back to NORMAL in WAL mode unless told otherwise on each connection.
  connection.pragma('synchronous = FULL');
  // The automatic checkpoint after a commit keeps its errors to itself, a failed fsync of the file among them.
  connection.pragma('wal_autocheckpoint = 0');
  return connection;
}

/** Moves what the WAL holds into the file. Throws where that fails; another process's readers may leave some for the next time. */
export function checkpoint(connection: Connection): void {
  connection.pragma('wal_checkpoint(PASSIVE)');
}

/** Opens a connection to an existing store that can only read. */
export function openReader(file: string): Connection {
  const connection = new Database(file, { timeout: readTimeoutMs, readonly: true });
  setUp(connection);
  return connection;
}

function setUp(connection: Connection): void {
  connection.defaultSafeIntegers(true);
  connection.pragma('foreign_keys = ON');
  // The file may come from elsewhere: nothing in its schema may call into the process (https://sqlite.org/security.html).
  connection.pragma('trusted_schema = OFF');
}

/** Looks at a file through a connection that cannot write, and throws where it is not a store that this version serves. */
function inspect(file: string): void {
  requireFile(file);
  const connection = new Database(file, { readonly: true });
  try {
    const empty = connection.prepare('SELECT 1 FROM sqlite_schema').get() === undefined;
    if (!empty || applicationIdOf(connection) !== 0 || currentVersion(connection) !== 0) identify(connection, file);
  } finally {
    connection.close();
  }
}

/** Throws OpenError where a database is not a store of ours, of this schema or an older one. */
function identify(connection: Connection, file: string): void {
  if (applicationIdOf(connection) !== applicationId)
    throw new OpenError(`${file} is a database of another application.`);
  const version = currentVersion(connection);
  if (version > latestVersion())
    throw new OpenError(`${file} has schema version ${version}; this release knows none above ${latestVersion()}.`);
}

function applicationIdOf(connection: Connection): number {
  return Number(connection.pragma('application_id', { simple: true }));
}

function requireFile(file: string): void {
  if (!fs.statSync(file).isFile()) throw new OpenError(`${file} is not a file.`);
}

/** Opens an existing store, of this schema or an older one, for reading only. Throws OpenError. */
export function openExisting(file: string): Connection {
  let connection: Connection | undefined;
  try {
    if (!fs.existsSync(file)) throw new OpenError(`${file} does not exist.`);
    requireFile(file);
    connection = openReader(file);
    identify(connection, file);
    return connection;
  } catch (error) {
    connection?.close();
    throw openError(file, error);
  }
}

/** What an operator is told of `file`; OpenErrors as they are. */
export function openError(file: string, error: unknown): OpenError {
  if (error instanceof OpenError) return error;
  const { code, message } = error as { code?: string; message: string };
  if (code === 'SQLITE_NOTADB') return new OpenError(`${file} is not an SQLite database.`, { cause: error });
  return new OpenError(`${file} cannot be opened: ${message}.`, { cause: error });
}

// Primary result codes (https://sqlite.org/rescode.html) that tell of the disk, the file or another process, not of a bug of ours.
const passing = /^SQLITE_(BUSY|LOCKED|NOMEM|READONLY|IOERR|CORRUPT|FULL|CANTOPEN|PROTOCOL|NOTADB)(_|$)/;

/** What a driver's error means to a client: `service_unavailable` where it may pass, otherwise the error itself. */
export function translate(error: unknown): unknown {
  if (!passing.test(String((error as { code?: unknown }).code))) return error;
  return unavailable(error);
}
