/** Creates folders, and files that are complete and on disk under their name, or do not exist. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { platform } from 'node:os';
import path from 'node:path';
import { codeOf } from '../core/errors.ts';

/** Suffixes of the files that SQLite keeps next to a store while it is open, or after a crash. */
export const sidecarFiles = ['-wal', '-shm', '-journal'];

/**
 * Creates `folder` and its missing parents, for this user only. The `recursive` option of Node never returns if mkdir reports ENOENT though
 * the parent exists, as it does below /proc.
 */
export function makeFolder(folder: string): void {
  if (fs.existsSync(folder)) return;
  makeFolder(path.dirname(folder));
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

/** Whether a name leads to anything but a file: opening a FIFO waits for its writer, and a device may have no end. */
export const isOther = (name: string) => fs.statSync(name, { throwIfNoEntry: false })?.isFile() === false;

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Reads a text that a person has written: .env, or a file that a setting names. Some editors begin it with a byte order mark, which is no part of it. */
export function readText(file: string): string {
  if (isOther(file)) throw new Error('it is not a file');
  const bytes = fs.readFileSync(file);
  try {
    // In UTF-16, each ASCII character has a zero byte.
    if (!bytes.includes(0)) return utf8.decode(bytes);
  } catch {
    // As in UTF-16.
  }
  throw new Error('it is not text in UTF-8: save it with that encoding');
}

/** Syncs a folder's entries to disk (fsync). Windows has no such call: a rename there is as durable as NTFS makes it. */
export function syncFolder(folder: string): void {
  if (platform() === 'win32') return;
  const descriptor = fs.openSync(folder, 'r');
  try {
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
}

/**
 * Where a symbolic link leads, also if nothing is there yet: SQLite keeps its files beside that, not beside the link. Follows as many links as Linux
 * does (path_resolution(7)); opening what is still a link fails with ELOOP.
 */
export function realFile(file: string, links = 40): string {
  const isLink = links > 0 && fs.lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink();
  if (!isLink) return file;
  // A link is relative to its own folder, to which a link may lead, too.
  return realFile(path.resolve(fs.realpathSync(path.dirname(file)), fs.readlinkSync(file)), links - 1);
}

/** Whether two paths are equal, or refer to the same file. */
export function isSame(one: string, other: string): boolean {
  if (path.resolve(one) === path.resolve(other)) return true;
  const [a, b] = [one, other].map((file) => fs.statSync(file, { bigint: true, throwIfNoEntry: false }));
  return a !== undefined && a.ino === b?.ino && a.dev === b?.dev;
}

/** Removes a file and what SQLite has left next to it. */
export function removeStore(file: string): void {
  for (const suffix of ['', ...sidecarFiles]) fs.rmSync(file + suffix, { force: true });
}

/** A new name beside `file`, for a file that is renamed to it when it is complete. Throws if the folder is missing. */
export function partialOf(file: string): string {
  const folder = path.dirname(file);
  fs.accessSync(folder);
  return path.join(folder, `${path.basename(file)}.partial-${randomUUID()}`);
}

/** Creates `file`, which is on disk when this resolves. On failure no file remains. `write` may use the descriptor but must not close it. */
export async function makeFile<Result>(
  file: string,
  mode: number,
  write: (descriptor: number) => Promise<Result>,
): Promise<Result> {
  const descriptor = fs.openSync(file, 'wx', mode);
  try {
    const result = await write(descriptor);
    fs.fsyncSync(descriptor);
    return result;
  } catch (error) {
    removeStore(file);
    throw error;
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Renames a file. Its new name is on disk when this returns. */
export function publish(partial: string, file: string): void {
  try {
    fs.renameSync(partial, file);
  } catch (error) {
    removeStore(partial);
    throw error;
  }
  syncFolder(path.dirname(file));
}
