/** Restores a backup over a store that no process has open. At every moment, either the old or the new store is complete in its place. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { codeOf, messageOf } from '../../core/errors.ts';
import { createPrivate, makeFolder, sync } from '../files.ts';
import { CopyError, type OpenOptions } from '../store.ts';
import { copyStore, type OnProgress, type Rows, removeStore, sidecarFiles } from './backup.ts';
import { checksumProblem, compareChecksum } from './checksum.ts';
import { openConnection } from './connection.ts';
import { openExisting, prepareStore } from './store-file.ts';

export interface RestoreOptions extends OpenOptions {
  /** Restore even if the current file cannot be locked because it is damaged. */
  force: boolean;
  onProgress: OnProgress;
}

export interface Restored {
  rows: Rows;
  /** The sessions and one-time links of the backup, which the restored store does not have. */
  ended: { sessions: number; links: number };
  /** The new path of the previous store; undefined if there was none. */
  kept: string | undefined;
}

/** How long to wait for commands that are just finishing. */
const lockTimeoutMs = 500;

/**
 * Replaces the store in `file` with a copy of `from`, migrated to this release's schema, without its sessions and one-time links. `from`
 * must match the checksum beside it, if there is one. Rejects with CopyError, OpenError, or an error of the system or of SQLite, and then leaves
 * the store unchanged.
 */
export async function restoreStore(from: string, file: string, options: RestoreOptions): Promise<Restored> {
  const source = openSource(from, file);
  const fresh = `${file}.restoring`;
  let hold: Hold | undefined;
  try {
    makeFolder(path.dirname(file));
    hold = lock(file, options.force);
    const rows = await copyStore(source, fresh, options.onProgress);
    prepareStore(fresh, options);
    keepIds(fresh, hold.connection);
    const ended = endSessions(fresh);
    adoptOwner(fresh, file);
    return { rows, ended, kept: swap(file, fresh, hold, options.now()) };
  } finally {
    source.close();
    if (hold) unlock(file, fresh, hold);
  }
}

function openSource(from: string, file: string): Database.Database {
  if (isSame(from, file)) throw new CopyError(`${from} is the store itself.`);
  requireChecksum(from);
  try {
    return openExisting(from);
  } catch (error) {
    throw new CopyError(messageOf(error), { cause: error });
  }
}

/** Throws CopyError if the file has a checksum beside it that it does not match. */
function requireChecksum(from: string): void {
  if (!fs.statSync(from, { throwIfNoEntry: false })?.isFile()) return;
  const problem = checksumProblem(from, compareChecksum(from));
  if (problem !== undefined) throw new CopyError(problem);
}

/** Whether two paths refer to the same file; false if either does not exist. */
export function isSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((file) => fs.statSync(file, { bigint: true, throwIfNoEntry: false }));
  return a !== undefined && a.ino === b?.ino && a.dev === b?.dev;
}

interface Hold {
  /** Holds the exclusive lock; undefined if the file cannot be locked. */
  connection: Database.Database | undefined;
  /** Whether the file existed before. */
  existed: boolean;
}

/**
 * Locks out all other connections until this one is closed. The exclusive lock succeeds only if no other connection is open, because in
 * WAL mode every connection holds a shared lock. Leaving WAL mode checkpoints the WAL, so the restored store cannot pick up an old one. A
 * process that opens the old file meanwhile waits, then gets SQLITE_READONLY_DBMOVED.
 */
function lock(file: string, force: boolean): Hold {
  const existed = fs.existsSync(file);
  if (!existed && fs.existsSync(`${file}-wal`) && !force)
    throw new CopyError(`${file}-wal exists without its store: make sure that no server is running, then use --force.`);
  try {
    // SQLite would treat a damaged file as an empty store and delete its WAL.
    if (existed && !isDatabase(file)) throw new Error('it is not an SQLite database');
    if (!existed) createPrivate(file);
    return { connection: openExclusive(file), existed };
  } catch (error) {
    if (codeOf(error).startsWith('SQLITE_BUSY')) throw new CopyError(`${file} is in use: stop the server first.`);
    if (force) return { connection: undefined, existed };
    throw new CopyError(
      `${file} cannot be locked (${messageOf(error)}): make sure that no server is running, then use --force.`,
    );
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

function openExclusive(file: string): Database.Database {
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

/** Carries over the old store's id counters, so that ids assigned after the backup are never assigned again. */
function keepIds(fresh: string, old: Database.Database | undefined): void {
  const counters = highestIds(old);
  const connection = openConnection(fresh);
  try {
    const raise = connection.prepare('UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?');
    const add = connection.prepare('INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)');
    for (const { name, seq } of counters) if (raise.run(seq, name).changes === 0) add.run(seq, name);
  } finally {
    connection.close();
  }
}

function highestIds(old: Database.Database | undefined): { name: string; seq: number }[] {
  try {
    return old?.prepare<[], { name: string; seq: number }>('SELECT name, seq FROM sqlite_sequence').all() ?? [];
  } catch {
    // A new or damaged file: the counters are unknown.
    return [];
  }
}

/** Sessions may have ended since the backup, and one-time links may have been used: the restored store must not revive any. */
function endSessions(fresh: string): Restored['ended'] {
  const connection = openConnection(fresh);
  try {
    const remove = (table: string) => connection.prepare(`DELETE FROM ${table}`).run().changes;
    return { sessions: remove('session'), links: remove('one_time_link') };
  } finally {
    connection.close();
  }
}

/** If root restores, the server's user must still be able to write to the store. */
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
    // A file that could not be locked still has its WAL, which SQLite must not apply to the new store.
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
  // Delete the empty file that locking created before the lock is released, or another process could create a store in it.
  const unused = !existed && fs.statSync(file).size === 0;
  if (unused) fs.rmSync(file);
  connection?.close();
  removeStore(fresh);
}
