/** What a file needs, beside its bytes, to be on disk. */
import fs from 'node:fs';

/** Waits until the disk holds what was written to the file, or which names the folder has. */
export function sync(fileOrFolder: string): void {
  const file = fs.openSync(fileOrFolder, 'r');
  try {
    fs.fsyncSync(file);
  } finally {
    fs.closeSync(file);
  }
}
