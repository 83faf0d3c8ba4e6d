/** Opening an SQLite file: whose file it is, how it is set up, and what its errors mean. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { Failure } from '../errors.ts';
import { latestVersion, migrate } from './migrations.ts';
import { OpenError, type OpenOptions } from './repository.ts';

/** "ANML" in ASCII, in every file of ours (https://sqlite.org/pragma.html#pragma_application_id). */
const applicationId = 0x414e4d4c;

/** How long a statement waits for another process's lock before SQLITE_BUSY. */
const busyTimeoutMs = 5000;

export type Connection = Database.Database;

/**
 * Opens, and where needed creates and migrates, the store in `file`. Returns the connection that writes.
 * Throws OpenError, leaving the file's bytes as they are, where it is not ours to write.
 */
export function openWriter(file: string, { now, onMigration }: OpenOptions): Connection {
  try {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    if (fs.existsSync(file)) inspect(file);
    const connection = new Database(file, { timeout: busyTimeoutMs });
    try {
      setUp(connection);
      // better-sqlite3 is compiled to fall back to NORMAL in WAL mode unless told otherwise on each connection.
      connection.pragma('journal_mode = WAL');
      connection.pragma('synchronous = FULL');
      migrate(connection, applicationId, now(), onMigration);
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  } catch (error) {
    throw openError(file, error);
  }
}

/** Opens a connection to an existing store that can only read. */
export function openReader(file: string): Connection {
  const connection = new Database(file, { timeout: busyTimeoutMs, readonly: true, fileMustExist: true });
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
  if (!fs.statSync(file).isFile()) throw new OpenError(`${file} is not a file.`);
  const connection = new Database(file, { readonly: true, fileMustExist: true });
  try {
    const id = connection.pragma('application_id', { simple: true });
    const version = Number(connection.pragma('user_version', { simple: true }));
    const empty = connection.prepare('SELECT 1 FROM sqlite_schema').get() === undefined;
    if (id !== applicationId && !(id === 0 && empty)) {
      throw new OpenError(`${file} is a database of another application.`);
    }
    if (version > latestVersion()) {
      throw new OpenError(`${file} has schema version ${version}; this release knows none above ${latestVersion()}.`);
    }
  } finally {
    connection.close();
  }
}

function openError(file: string, error: unknown): OpenError {
  if (error instanceof OpenError) return error;
  const { code, message } = error as { code?: string; message: string };
  if (code === 'SQLITE_NOTADB') return new OpenError(`${file} is not an SQLite database.`, { cause: error });
  return new OpenError(`${file} cannot be opened: ${message}.`, { cause: error });
}

// Primary result codes (https://sqlite.org/rescode.html) that tell of the disk, the file or another process, not of a bug of ours.
const unavailable = /^SQLITE_(BUSY|LOCKED|NOMEM|READONLY|IOERR|CORRUPT|FULL|CANTOPEN|PROTOCOL|NOTADB)(_|$)/;

/** What a driver's error means to a client: `service_unavailable` where it may pass, otherwise the error itself. */
export function translate(error: unknown): unknown {
  if (!unavailable.test(String((error as { code?: unknown }).code))) return error;
  return new Failure('service_unavailable', undefined, { headers: { 'retry-after': '1' }, cause: error });
}
