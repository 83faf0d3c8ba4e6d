/** Puts a new file in the place of another one, which a program may have open as an SQLite database. */
import fs from 'node:fs';
import { platform } from 'node:os';
import Database from 'better-sqlite3';
import { messageOf } from '../../core/errors.ts';
import { inShell, makeFile, type Place, refuseSidecars, type Warn } from '../files.ts';
import { CopyError } from '../store.ts';
import { primaryCodeOf } from './connection.ts';
import { openExisting, readHeader, retryWhileBusy } from './store-file.ts';

/** How long to wait for commands that are just finishing. */
const lockTimeoutMs = 500;

/** Windows renames and replaces no file that any program has open, this one included. */
const canRenameOpen = platform() !== 'win32';

/**
 * Locks out all other connections until the returned one is closed. In WAL mode this fails while any other is open, because each holds a shared lock.
 * Leaving WAL mode moves the WAL into the file, and no file of SQLite's then lies beside it. It also keeps out a program that has opened the file but not
 * read it: when its turn comes, it finds no WAL mode, in which it would create a WAL under the name of the new file, and can only read
 * (SQLITE_READONLY_DBMOVED). Throws SQLite's errors, or the system's.
 */
export function lockOut(file: string): Database.Database {
  // Of a file that it may not write, SQLite would begin to read instead.
  fs.accessSync(file, fs.constants.W_OK);
  const connection = new Database(file, { timeout: lockTimeoutMs });
  try {
    connection.pragma('journal_mode = DELETE');
    // From here on nothing is written, and no journal may lie beside the file: one does with locking_mode = EXCLUSIVE, and of an empty file.
    connection.pragma('journal_mode = MEMORY');
    connection.exec('BEGIN EXCLUSIVE');
    if (connection.pragma('journal_mode', { simple: true }) === 'memory') return connection;
    throw Object.assign(new Error('another program has returned to WAL mode'), { code: 'SQLITE_BUSY' });
  } catch (error) {
    connection.close();
    throw error;
  }
}

/**
 * Locks the file that is to be replaced. Undefined if there is none, or if it is no database, or a damaged one: SQLite has no use for that. Throws CopyError.
 */
function lockTarget(file: string): Database.Database | undefined {
  refuseSidecars(file);
  if (!fs.existsSync(file)) return undefined;
  try {
    const isDatabase = readHeader(file).toString('latin1').startsWith('SQLite format 3\0');
    return isDatabase && canRenameOpen ? lockOut(file) : undefined;
  } catch (error) {
    const code = primaryCodeOf(error);
    if (['SQLITE_NOTADB', 'SQLITE_CORRUPT'].includes(code)) return undefined;
    if (code === 'SQLITE_BUSY') throw new CopyError(`${file} is in use: close the program that has it open.`);
    throw new CopyError(
      `${file} cannot be locked (${messageOf(error)}): make sure that no program has it open, then run rm ${inShell(file)} and repeat the command.`,
    );
  }
}

function identityOf(file: string): string | undefined {
  const found = fs.statSync(file, { bigint: true, throwIfNoEntry: false });
  return found && `${found.dev} ${found.ino}`;
}

/**
 * Runs `place`, which gives a database its name `file`, while no other program can open it: what lies beside it then is not its own. Throws CopyError, after
 * which the file has its name, or the error of `place`.
 */
export function placeLocked(partial: string, file: string, place: () => void): void {
  const fresh = canRenameOpen ? lockOut(partial) : undefined;
  try {
    place();
    refuseSidecars(file);
  } finally {
    fresh?.close();
  }
}

/** As makeFile, but replaces a file that exists. If it rejects, the old file stays, unless `place` has given the new one its name. */
export async function replaceFile<Result>(
  file: string,
  mode: number,
  warn: Warn,
  write: (partial: string, descriptor: number) => Promise<Result>,
  place: Place = (partial) => fs.renameSync(partial, file),
): Promise<Result> {
  const before = identityOf(file);
  const old = lockTarget(file);
  try {
    return await makeFile(file, mode, warn, write, (partial) => {
      if (identityOf(file) !== before)
        throw new CopyError(`${file} was created or replaced meanwhile: repeat the command.`);
      place(partial);
    });
  } finally {
    old?.close();
  }
}

/** Counts the animals that a reader of `file`, which was just published, finds. Throws CopyError unless it is the number that was written. */
export function expectAnimals(file: string, isWritten: (read: number) => boolean): void {
  let read: number;
  try {
    // A server may be starting on it.
    read = retryWhileBusy(() => {
      const connection = openExisting(file);
      try {
        return Number(connection.prepare('SELECT count(*) FROM pet').pluck().get());
      } finally {
        connection.close();
      }
    });
  } catch (error) {
    throw new CopyError(`${file} was written, but cannot be read: ${messageOf(error)}`, { cause: error });
  }
  if (!isWritten(read)) throw new CopyError(`${file} was written, but has another number of animals: ${read}.`);
}
