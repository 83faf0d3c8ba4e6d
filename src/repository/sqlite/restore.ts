/** Puts a copy in the place of a store that nobody has open, so that at every instant one of the two is there, whole. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { sync } from '../files.ts';
import { CopyError, type OpenOptions } from '../store.ts';
import { copyStore, type OnProgress, type Rows, removeStore, sidecarFiles } from './backup.ts';
import { type Connection, openConnection, openExisting, prepareStore } from './connection.ts';

export interface RestoreOptions extends OpenOptions {
  /** Also in the place of a file that cannot be locked, because it is damaged. */
  force: boolean;
  onProgress: OnProgress;
}

export interface Restored {
  rows: Rows;
  /** Where the store that was there before is now; undefined where there was none. */
  kept: string | undefined;
}

/** How long commands that are just ending are waited for. */
const lockTimeoutMs = 500;

/** Replaces the store in `file` by a copy of the one in `from`, brought to this release's schema. Throws CopyError, with the store as it was. */
export async function restoreStore(from: string, file: string, options: RestoreOptions): Promise<Restored> {
  const source = openSource(from, file);
  const fresh = `${file}.restoring`;
  let hold: Hold | undefined;
  try {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    hold = lock(file, options.force);
    const rows = await copyStore(source, fresh, options.onProgress);
    prepareStore(fresh, options);
    keepIds(fresh, hold.connection);
    adoptOwner(fresh, file);
    return { rows, kept: swap(file, fresh, hold, options.now()) };
  } finally {
    source.close();
    if (hold) unlock(file, fresh, hold);
  }
}

function openSource(from: string, file: string): Connection {
  if (isSame(from, file)) throw new CopyError(`${from} is the store itself.`);
  try {
    return openExisting(from);
  } catch (error) {
    throw new CopyError((error as Error).message, { cause: error });
  }
}

/** Whether two names lead to one file; false where one leads to none. */
export function isSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((file) => fs.statSync(file, { bigint: true, throwIfNoEntry: false }));
  return a !== undefined && a.ino === b?.ino && a.dev === b?.dev;
}

interface Hold {
  /** Holds the exclusive lock; undefined where the file cannot be locked. */
  connection: Connection | undefined;
  /** There was a store before. */
  existed: boolean;
}

/**
 * Keeps all others out until its connection is closed. An exclusive lock is had only where no other connection is open: in WAL mode each holds a
 * shared one for as long as it lives. To leave WAL mode moves the log into the file, so that none is left for the next store. Who
 * opens the old file meanwhile waits, and then finds that it has been moved (SQLITE_READONLY_DBMOVED).
 */
function lock(file: string, force: boolean): Hold {
  const existed = fs.existsSync(file);
  if (!existed && fs.existsSync(`${file}-wal`) && !force)
    throw new CopyError(`${file}-wal is there without its store: see that no server runs, then use --force.`);
  try {
    // SQLite would take a damaged file's log for that of an empty store, and remove it.
    if (existed && !isDatabase(file)) throw new Error('it is not an SQLite database');
    return { connection: openExclusive(file), existed };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code?.startsWith('SQLITE_BUSY')) throw new CopyError(`${file} is in use: stop the server first.`);
    if (force) return { connection: undefined, existed };
    throw new CopyError(`${file} cannot be locked (${message}): see that no server runs, then use --force.`);
  }
}

function isDatabase(file: string): boolean {
  const header = Buffer.from('SQLite format 3\0');
  const descriptor = fs.openSync(file, 'r');
  const begin = Buffer.alloc(header.length);
  const count = fs.readSync(descriptor, begin);
  fs.closeSync(descriptor);
  return count === 0 || begin.equals(header);
}

function openExclusive(file: string): Connection {
  const connection = new Database(file, { timeout: lockTimeoutMs });
  try {
    connection.pragma('locking_mode = EXCLUSIVE');
    connection.pragma('journal_mode = DELETE');
    connection.exec('BEGIN EXCLUSIVE');
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** An id that was given after the copy was made is not given again: the old store still knows the highest. */
function keepIds(fresh: string, old: Connection | undefined): void {
  const given = highestIds(old);
  const connection = openConnection(fresh);
  try {
    const raise = connection.prepare('UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?');
    const add = connection.prepare('INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)');
    for (const { name, seq } of given) if (raise.run(seq, name).changes === 0) add.run(seq, name);
  } finally {
    connection.close();
  }
}

function highestIds(old: Connection | undefined): { name: string; seq: number }[] {
  try {
    return (old?.prepare('SELECT name, seq FROM sqlite_sequence').all() ?? []) as { name: string; seq: number }[];
  } catch {
    // A new file, or a damaged one: then nobody knows.
    return [];
  }
}

/** The server's user must be able to write to what root restores. */
function adoptOwner(fresh: string, file: string): void {
  const { mode, uid, gid } = fs.statSync(file);
  fs.chmodSync(fresh, mode);
  fs.chownSync(fresh, uid, gid);
}

function swap(file: string, fresh: string, { connection, existed }: Hold, now: Date): string | undefined {
  const stamp = now.toISOString().replace(/[-:.]/g, '');
  const kept = existed ? `${file}.${stamp}.before-restore` : undefined;
  sync(fresh);
  if (kept) {
    fs.linkSync(file, kept);
    // Of a file that could not be locked they are still there, and must not be taken for the new one's.
    if (!connection) for (const suffix of sidecarFiles) moveAside(file + suffix, kept + suffix);
  }
  fs.renameSync(fresh, file);
  sync(path.dirname(file));
  return kept;
}

function moveAside(from: string, to: string): void {
  if (fs.existsSync(from)) fs.renameSync(from, to);
}

function unlock(file: string, fresh: string, { connection, existed }: Hold): void {
  // Before the lock goes, so that nobody makes a store of the empty file that only the lock has made.
  const unused = !existed && fs.statSync(file).size === 0;
  if (unused) fs.rmSync(file);
  connection?.close();
  removeStore(fresh);
}
