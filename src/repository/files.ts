/** Writes files durably: the content and the directory entry are both synced to disk. */
import fs from 'node:fs';
import { CopyError } from './store.ts';

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
