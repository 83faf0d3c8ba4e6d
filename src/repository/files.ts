/** What a file needs, beside its bytes, to be on disk under its name. */
import fs from 'node:fs';
import { CopyError } from './store.ts';

/** Waits until the disk holds what was written to a file, or which names a folder has. */
export function sync(fileOrFolder: string): void {
  const descriptor = fs.openSync(fileOrFolder, 'r');
  try {
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
}

/**
 * Makes a new file that is on disk when this resolves, or none. What is there already, of a process that was killed, goes; where
 * two make the same file at once, the one that began first fails. `write` may use the descriptor, but not close it.
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
    if (!isOurs()) throw new CopyError(`Another process writes to ${file}, too.`);
    return result;
  } catch (error) {
    if (isOurs()) fs.rmSync(file);
    throw error;
  } finally {
    fs.closeSync(descriptor);
  }
}
