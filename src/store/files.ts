/** Creates folders, and files that are complete and on disk under their name, or do not exist. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { platform } from 'node:os';
import path from 'node:path';
import { codeOf, messageOf } from '../core/errors.ts';
import { CopyError } from './store.ts';

/** Suffixes of the files that SQLite keeps next to a store while it is open, or after a crash. */
export const sidecarFiles = ['-wal', '-shm', '-journal'];

/** Gets a sentence about what could not be done after a file was published: no reason to fail. */
export type Warn = (sentence: string) => void;

/**
 * Creates `folder` and its missing parents, for this user only, and syncs the entry of each. The `recursive` option of Node never returns if mkdir
 * reports ENOENT though the parent exists, as it does below /proc.
 */
export function makeFolder(folder: string, warn: Warn): void {
  if (fs.existsSync(folder)) return;
  const parent = path.dirname(folder);
  makeFolder(parent, warn);
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
  syncFolder(parent, warn);
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

/**
 * Syncs a folder's entries to disk (fsync). Some folders can be written but not opened, and some file systems cannot sync one: the entries are there, so
 * this only warns. Windows has no such call: a rename there is as durable as NTFS makes it.
 */
function syncFolder(folder: string, warn: Warn): void {
  if (platform() === 'win32') return;
  try {
    const descriptor = fs.openSync(folder, 'r');
    try {
      fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
  } catch (error) {
    warn(
      `${folder} cannot be synced (${messageOf(error)}): a loss of power can still undo what was just created there.`,
    );
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
function removeStore(file: string): void {
  for (const suffix of ['', ...sidecarFiles]) fs.rmSync(file + suffix, { force: true });
}

/** A name as an argument of a command for the operator. */
export const inShell = (name: string) => (/^[\w./:+-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

/**
 * A sentence if SQLite's files lie beside `file`, whether it exists or not: SQLite would read them as a part of what is put there. Empty ones, too: a program
 * that still has them open can write to them.
 */
export function sidecarsOf(file: string): string | undefined {
  const found = sidecarFiles
    .map((suffix) => file + suffix)
    .filter((name) => fs.lstatSync(name, { throwIfNoEntry: false }));
  if (found.length === 0) return undefined;
  const remove = `rm ${found.map(inShell).join(' ')}`;
  return `SQLite would read what lies beside ${file} as a part of the new file: ${found.join(', ')}. Close the program that has ${file} open; if there is none, run ${remove} and repeat the command.`;
}

/** Throws CopyError if SQLite's files lie beside `file`. */
export function refuseSidecars(file: string): void {
  const sentence = sidecarsOf(file);
  if (sentence) throw new CopyError(sentence);
}

/** Creates `file`, whose content is on disk when this resolves. `write` gets its descriptor. */
async function writeFile<Result>(
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
    // The system names no path for a descriptor.
    const { syscall, path: named } = error as NodeJS.ErrnoException;
    if (named === undefined && (syscall === 'write' || syscall === 'fsync'))
      throw new CopyError(`${file} cannot be written: ${messageOf(error)}.`, { cause: error });
    throw error;
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Gives a partial file the name that it is made for. */
export type Place = (partial: string) => void;

/**
 * Makes a file that is complete and on disk under its name when this resolves, unless it warns. `write` gets the name and the descriptor of a partial file
 * beside it, and must not close that; then `place` gives it its name. Rejects with CopyError, an error of the system, or that of `write` or `place`. No
 * partial file remains.
 */
export async function makeFile<Result>(
  file: string,
  mode: number,
  warn: Warn,
  write: (partial: string, descriptor: number) => Promise<Result>,
  place: Place,
): Promise<Result> {
  const folder = path.dirname(file);
  fs.accessSync(folder);
  const partial = path.join(folder, `${path.basename(file)}.partial-${randomUUID()}`);
  try {
    const result = await writeFile(partial, mode, (descriptor) => write(partial, descriptor));
    refuseSidecars(file);
    place(partial);
    syncFolder(folder, warn);
    return result;
  } finally {
    removeStore(partial);
  }
}
