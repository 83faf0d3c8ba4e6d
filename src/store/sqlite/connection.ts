/** Connections to an SQLite file: their settings, the statements of commands and queries on them, and their errors. */
import { statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { codeOf } from '../../core/errors.ts';
import { type Steps, textFor, valuesOf } from '../steps.ts';
import { unavailable } from '../store.ts';

/** How long a write waits for another process's write before SQLITE_BUSY. */
export const writeTimeoutMs = 5000;

/** In WAL mode a reader waits only while another connection recovers the WAL. The wait blocks the event loop, so it is short. */
const readTimeoutMs = 250;

/** Opens a connection for writing. */
export function openConnection(file: string): Database.Database {
  const connection = new Database(file, { timeout: writeTimeoutMs });
  setUp(connection);
  if (connection.pragma('journal_mode', { simple: true }) !== 'wal') connection.pragma('journal_mode = WAL');
  // better-sqlite3 is compiled to use NORMAL in WAL mode unless each connection sets another level.
  connection.pragma('synchronous = FULL');
  // On macOS, fsync alone does not reach the disk (https://sqlite.org/pragma.html#pragma_fullfsync). Elsewhere this changes nothing.
  connection.pragma('fullfsync = ON');
  connection.pragma('checkpoint_fullfsync = ON');
  // SQLite's automatic checkpoint after a commit hides its errors, including a failed fsync of the file.
  connection.pragma('wal_autocheckpoint = 0');
  // Otherwise a WAL that grew because of a long reader would keep its size until the last connection closes.
  connection.pragma('journal_size_limit = 16777216');
  return connection;
}

/**
 * Returns a function that throws if the file, its `-wal` or its `-shm` was removed or replaced since. SQLite would go on with the files that it has opened,
 * which no other process sees and which are lost when they are closed. If the system call fails, nothing is thrown. `given`: a path of the file, perhaps a
 * link that leads elsewhere later.
 */
export function watchFile(file: string, given: string): () => void {
  const look = (name: string) => statSync(name, { bigint: true, throwIfNoEntry: false });
  const opened = [given, `${file}-wal`, `${file}-shm`].map((name) => ({ name, before: look(name) }));
  const isOpened = ({ name, before }: (typeof opened)[number]) => {
    try {
      const found = look(name);
      return !before || (found?.ino === before.ino && found.dev === before.dev);
    } catch {
      return true;
    }
  };
  return () => {
    const moved = opened.find((one) => !isOpened(one));
    if (!moved) return;
    const code = 'SQLITE_READONLY_DBMOVED';
    throw Object.assign(new Error(`${moved.name} was removed or replaced while it was open`), { code });
  };
}

/** Moves the WAL into the file. Throws if that fails. Frames that another process still reads stay until the next checkpoint. */
export function checkpoint(connection: Database.Database): void {
  connection.pragma('wal_checkpoint(PASSIVE)');
}

/** Opens a read-only connection to an existing store. */
export function openReader(file: string): Database.Database {
  const connection = new Database(file, { timeout: readTimeoutMs, readonly: true });
  setUp(connection);
  return connection;
}

function setUp(connection: Database.Database): void {
  connection.defaultSafeIntegers(true);
  connection.pragma('foreign_keys = ON');
  // The file may come from an untrusted source: its schema must not call application functions (https://sqlite.org/security.html).
  connection.pragma('trusted_schema = OFF');
}

/** Bytes are a Buffer, or what JSON has made of it on the way to the writer's thread. */
const toSqlite = (value: unknown) =>
  value instanceof Object && !Buffer.isBuffer(value) ? Buffer.from(value as Buffer) : value;

/** Integers as numbers; as bigint if a number cannot hold them. */
const fromSqlite = (value: unknown) =>
  typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;

/** Returns a function that runs steps synchronously, in the transaction that is open, if any. It throws SQLite errors. */
export function createRunner(connection: Database.Database): <Result>(steps: Steps<Result>) => Result {
  const prepared = new Map<string, Database.Statement<unknown[], Record<string, unknown>>>();

  function prepare(text: string) {
    const statement = connection.prepare<unknown[], Record<string, unknown>>(text).safeIntegers(true);
    prepared.set(text, statement);
    return statement;
  }

  return (steps) => {
    let step = steps.next();
    while (!step.done) {
      const { texts, given } = step.value;
      const text = textFor('sqlite', texts, given);
      const statement = prepared.get(text) ?? prepare(text);
      const values = valuesOf(given).map(toSqlite);
      if (statement.reader) {
        const rows = statement.all(...values);
        for (const row of rows) for (const name in row) row[name] = fromSqlite(row[name]);
        step = steps.next(rows);
      } else {
        statement.run(...values);
        step = steps.next([]);
      }
    }
    return step.value;
  };
}

/** The primary result code of an SQLite error; extended ones add to its name (https://sqlite.org/rescode.html). */
export const primaryCodeOf = (error: unknown) => codeOf(error).split('_', 2).join('_');

/** Caused by the disk, the file or another process, not by a bug in this code. */
const environmental: ReadonlySet<string> = new Set([
  'SQLITE_BUSY',
  'SQLITE_LOCKED',
  'SQLITE_NOMEM',
  'SQLITE_READONLY',
  'SQLITE_IOERR',
  'SQLITE_CORRUPT',
  'SQLITE_FULL',
  'SQLITE_CANTOPEN',
  'SQLITE_PROTOCOL',
  'SQLITE_NOTADB',
]);

/** Turns a driver error into ApiError `service_unavailable` if the environment caused it; returns any other error unchanged. */
export const translate = (error: unknown) => (environmental.has(primaryCodeOf(error)) ? unavailable(error) : error);
