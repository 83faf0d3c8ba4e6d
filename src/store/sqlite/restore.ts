/** Restores a backup over a store that no process has open. At every moment, either the old or the new store is complete in its place. */
import fs from 'node:fs';
import path from 'node:path';
import type Database from 'better-sqlite3';
import { messageOf } from '../../core/errors.ts';
import { isSame, makeFile, makeFolder, refuseSidecars, type Warn } from '../files.ts';
import { CopyError } from '../store.ts';
import { copyStore } from './backup.ts';
import { checkStore } from './check.ts';
import { openConnection, primaryCodeOf } from './connection.ts';
import { expectAnimals, lockOut, placeLocked } from './replace.ts';
import { openExisting, prepareStore, readHeader, refuseLost } from './store-file.ts';

/**
 * Replaces the store in `file` with a copy of `from`, migrated to this release's schema, without its sessions and one-time links. `from` must
 * be sound. Resolves to the number of animals, the names of the migrations that were applied to it, and the new path of the previous store, if
 * there was one. Rejects with CopyError, OpenError, or an error of the system or of SQLite. The store is then unchanged, unless the error names the path of
 * the previous one.
 */
export async function restoreStore(from: string, file: string, now: () => Date, warn: Warn) {
  if (isSame(from, file)) throw new CopyError(`${from} is the store itself.`);
  const { problems, rows } = checkStore(from);
  if (problems.length > 0) throw new CopyError(problems.join('\n'));
  makeFolder(path.dirname(file), warn);
  const old = lock(file);
  const kept = old && `${file}.${now().toISOString().replace(/[-:.]/g, '')}.before-restore`;
  const animals = rows.pet as number;
  const source = openExisting(from);
  try {
    const write = async (partial: string) => {
      await copyStore(source, partial);
      const applied = prepareStore(partial, { now });
      adapt(partial, old);
      if (old) adoptOwner(partial, file);
      return applied;
    };
    const migrated = await makeFile(file, 0o600, warn, write, (partial) =>
      placeLocked(partial, file, () => {
        if (kept !== undefined) exchange(partial, file, kept);
        // Not a rename, which would replace a store that a server has created meanwhile.
        else fs.linkSync(partial, file);
      }),
    );
    // A server that has started meanwhile may have added some.
    expectAnimals(file, (read) => read >= animals);
    return { animals, migrated, kept };
  } catch (error) {
    if (kept === undefined || !fs.existsSync(kept)) throw error;
    throw new CopyError(`${messageOf(error)} The previous store is kept as ${kept}.`, { cause: error });
  } finally {
    source.close();
    old?.close();
  }
}

/** Locks out all other connections until this one is closed; undefined if there is no store. Throws CopyError or OpenError. */
function lock(file: string): Database.Database | undefined {
  // The next process would apply what is left to the new store.
  refuseLost(file);
  if (!fs.existsSync(file)) {
    refuseSidecars(file);
    return undefined;
  }
  let connection: Database.Database | undefined;
  try {
    // SQLite would treat a damaged file as an empty store and delete its WAL.
    if (!/^(SQLite format 3)?\0/.test(readHeader(file).toString('latin1')))
      throw new Error('it is not an SQLite database');
    connection = lockOut(file);
    // Nothing of the store's own lies beside it now.
    refuseSidecars(file);
    // Without them, the restored store could give ids a second time.
    highestIds(connection);
    return connection;
  } catch (error) {
    connection?.close();
    if (primaryCodeOf(error) === 'SQLITE_BUSY') throw new CopyError(`${file} is in use: stop the server first.`);
    throw new CopyError(
      `${file} cannot be locked (${messageOf(error)}): make sure that no server is running, then move ${file}* elsewhere.`,
    );
  }
}

function adapt(fresh: string, old: Database.Database | undefined): void {
  const connection = openConnection(fresh);
  try {
    // Sessions may have ended since the backup, and one-time links may have been used: the restored store must not revive any.
    connection.exec('DELETE FROM session; DELETE FROM one_time_link');
    // Ids that were assigned after the backup must never be assigned again.
    const raise = connection.prepare('UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?');
    const add = connection.prepare('INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)');
    for (const { name, seq } of highestIds(old)) if (raise.run(seq, name).changes === 0) add.run(seq, name);
    // Into the file itself: close() hides that its checkpoint has failed, and the write-ahead log is not renamed with the file.
    connection.pragma('journal_mode = DELETE');
  } finally {
    connection.close();
  }
}

function highestIds(old: Database.Database | undefined): { name: string; seq: number }[] {
  // An empty file has no such table.
  const found = old?.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'").get();
  if (!old || !found) return [];
  // An id beyond these bounds was not assigned by a release.
  const assigned = 'SELECT name, seq FROM sqlite_sequence WHERE seq BETWEEN 1 AND ?';
  return old.prepare<[number], { name: string; seq: number }>(assigned).all(Number.MAX_SAFE_INTEGER);
}

/** If root restores, the server's user must still be able to write to the store. */
function adoptOwner(fresh: string, file: string): void {
  const { mode, uid, gid } = fs.statSync(file);
  fs.chmodSync(fresh, mode);
  fs.chownSync(fresh, uid, gid);
}

/** Replaces a store, which keeps the name `kept`. If that fails, the store has one name: writes under two would not know of each other. */
function exchange(partial: string, file: string, kept: string): void {
  fs.linkSync(file, kept);
  try {
    fs.renameSync(partial, file);
  } catch (error) {
    fs.rmSync(kept);
    throw error;
  }
}
