/** Creates folders and files, writes files durably, and says why a file cannot be used. */
import fs from 'node:fs';
import path from 'node:path';
import { codeOf } from '../core/errors.ts';
import { CopyError } from './store.ts';

/**
 * Creates `folder` and its missing parents, for this user only. Throws the error of mkdir(2). The `recursive` option of Node never returns if
 * mkdir reports ENOENT though the parent exists, as it does below /proc.
 */
export function makeFolder(folder: string): void {
  const parent = path.dirname(folder);
  if (!fs.existsSync(parent) && parent !== folder) makeFolder(parent);
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (!fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

/** Creates an empty file that only this user can read, unless it exists. SQLite would make it readable for everybody. */
export function createPrivate(file: string): void {
  fs.closeSync(fs.openSync(file, 'a', 0o600));
}

/**
 * Why this user cannot read, write or create `file` and the files beside it, as the end of a sentence. Undefined if the permissions allow
 * all of it.
 */
export function obstacleTo(file: string): string | undefined {
  const { R_OK, W_OK, X_OK } = fs.constants;
  const target = path.resolve(file);
  const folder = path.dirname(target);
  if (fs.existsSync(target))
    return denial(target, 'read', R_OK) ?? denial(target, 'write', W_OK) ?? denial(folder, 'write to', W_OK);
  let nearest = folder;
  while (!fs.existsSync(nearest)) nearest = path.dirname(nearest);
  if (!fs.statSync(nearest).isDirectory()) return `${nearest} is not a folder`;
  const denied = denial(nearest, 'open', X_OK) ?? denial(nearest, 'write to', W_OK);
  return denied ?? (nearest === folder ? undefined : `no folder can be created in ${nearest}`);
}

function denial(place: string, verb: string, mode: number): string | undefined {
  try {
    fs.accessSync(place, mode);
    return undefined;
  } catch (error) {
    return codeOf(error) === 'EROFS' ? `${place} is on a read-only file system` : `this user may not ${verb} ${place}`;
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

/**
 * Creates a file, which is on disk when this resolves. On failure no file remains. First removes any file of this name, which a killed
 * process may have left. If two callers create the same file concurrently, the earlier one rejects with CopyError. `write` may use the
 * descriptor but must not close it.
 */
export async function makeFile<Result>(
  file: string,
  mode: number,
  write: (descriptor: number) => Promise<Result>,
): Promise<Result> {
  fs.rmSync(file, { force: true });
  const descriptor = fs.openSync(file, 'wx', mode);
  const isOurs = () => fs.fstatSync(descriptor).ino === fs.statSync(file, { throwIfNoEntry: false })?.ino;
  try {
    const result = await write(descriptor);
    fs.fsyncSync(descriptor);
    if (!isOurs()) throw new CopyError(`Another process is also writing to ${file}.`);
    return result;
  } catch (error) {
    if (isOurs()) fs.rmSync(file);
    throw error;
  } finally {
    fs.closeSync(descriptor);
  }
}
