/** The file of a store: creates and migrates it, checks that it is a store, and tells the operator why it cannot be opened. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { codeOf, messageOf } from '../../core/errors.ts';
import { createPrivate, makeFolder, obstacleTo } from '../files.ts';
import { obstacleOf } from '../migrations.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { checkpoint, openConnection, openReader, writeTimeoutMs } from './connection.ts';
import { currentVersion, latestVersion, migrate, readState } from './migrations.ts';

/** "ANML" in ASCII: marks every store file (https://sqlite.org/pragma.html#pragma_application_id). */
const applicationId = 0x414e4d4c;

const retryDelayMs = 20;

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
      if (!codeOf(error).startsWith('SQLITE_BUSY') || Date.now() >= deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryDelayMs);
    }
  }
}

/**
 * Inspects a file that may have a hot rollback journal. A process that is killed while it creates the store leaves one, and a read-only
 * connection cannot roll it back (https://sqlite.org/rescode.html#readonly_rollback). Files of other applications stay as they are.
 */
function inspectAfterCrash(file: string): void {
  try {
    inspect(file);
  } catch (error) {
    if (codeOf(error) !== 'SQLITE_READONLY_ROLLBACK' || !isCreated(file)) throw error;
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

function isEmpty(connection: Database.Database): boolean {
  const hasSchema = connection.prepare('SELECT 1 FROM sqlite_schema').get() !== undefined;
  return !hasSchema && applicationIdOf(connection) === 0 && currentVersion(connection) === 0;
}

/** Throws OpenError unless the database is a store whose schema this release can run on, or an older one. */
function identify(connection: Database.Database, file: string): void {
  if (applicationIdOf(connection) !== applicationId)
    throw new OpenError(`${file} is a database of another application.`);
  const obstacle = obstacleOf(readState(connection), latestVersion());
  if (obstacle !== undefined) throw new OpenError(`${file} ${obstacle}`);
}

function applicationIdOf(connection: Database.Database): number {
  return Number(connection.pragma('application_id', { simple: true }));
}

function requireFile(file: string): void {
  const found = fs.statSync(file, { throwIfNoEntry: false });
  if (!found) throw new OpenError(`${file} does not exist.`);
  if (!found.isFile()) throw new OpenError(`${file} is not a file.`);
}

/** Opens an existing store read-only, without migrating it. Throws OpenError. */
export function openExisting(file: string): Database.Database {
  let connection: Database.Database | undefined;
  try {
    requireFile(file);
    connection = openReader(file);
    if (isEmpty(connection)) throw incomplete(file);
    identify(connection, file);
    return connection;
  } catch (error) {
    connection?.close();
    if (codeOf(error) === 'SQLITE_READONLY_ROLLBACK' && isCreated(file)) throw incomplete(file);
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
  const code = codeOf(error);
  if (code === 'SQLITE_NOTADB') return new OpenError(`${file} is not an SQLite database.`, { cause: error });
  const reason = inaccessible.test(code) ? obstacleTo(file) : undefined;
  return new OpenError(`${file} cannot be opened: ${reason ?? messageOf(error)}.`, { cause: error });
}
