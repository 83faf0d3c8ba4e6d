/** Creates folders, and files that are complete and on disk under their name, or do not exist. */
import fs from 'node:fs';
import path from 'node:path';
import { codeOf } from '../core/errors.ts';
import { CopyError } from './store.ts';

/** Suffixes of the files that SQLite keeps next to a store while it is open, or after a crash. */
export const sidecarFiles = ['-wal', '-shm', '-journal'];

/** The name of a file until it is complete. It is always the same, so that the next run removes what a killed process left. */
export const partialOf = (file: string) => `${file}.partial`;

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

/** Syncs a file's content, or a folder's entries, to disk (fsync). */
export function sync(fileOrFolder: string): void {
  const descriptor = fs.openSync(fileOrFolder, 'r');
  try {
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Whether two paths refer to the same file; false if either does not exist. */
export function isSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((file) => fs.statSync(file, { bigint: true, throwIfNoEntry: false }));
  return a !== undefined && a.ino === b?.ino && a.dev === b?.dev;
}

/** Removes a file and what SQLite has left next to it. */
export function removeStore(file: string): void {
  for (const suffix of ['', ...sidecarFiles]) fs.rmSync(file + suffix, { force: true });
}

/**
 * Replaces `file`, which is on disk when this resolves. On failure no file remains. If another process replaces it meanwhile, this one
 * rejects. `write` may use the descriptor but must not close it.
 */
export async function makeFile<Result>(
  file: string,
  mode: number,
  write: (descriptor: number) => Promise<Result>,
): Promise<Result> {
  removeStore(file);
  const descriptor = fs.openSync(file, 'wx', mode);
  const isOurs = () => fs.fstatSync(descriptor).ino === fs.statSync(file, { throwIfNoEntry: false })?.ino;
  try {
    const result = await write(descriptor);
    fs.fsyncSync(descriptor);
    if (!isOurs()) throw new CopyError(`Another process is also writing to ${file}.`);
    return result;
  } catch (error) {
    if (isOurs()) removeStore(file);
    throw error;
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Gives the complete file at `partialOf(file)` its name, which is on disk when this returns. */
export function publish(file: string): void {
  fs.renameSync(partialOf(file), file);
  sync(path.dirname(file));
}
