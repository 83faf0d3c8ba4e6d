/** A small file system, for tests of a full disk. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { onTestFinished, type TestContext } from 'vitest';

/** Fills the disk of a file to the last block. */
function fill(filler: string) {
  for (let bytes = 64 * 1024; bytes >= 1; ) {
    try {
      fs.appendFileSync(filler, Buffer.alloc(bytes));
    } catch {
      bytes = Math.floor(bytes / 4);
    }
  }
}

/** Creates `folder` and mounts a small file system on it until the test ends. Skips the test if the process may not mount one. */
export function mountSmallDisk({ skip }: Pick<TestContext, 'skip'>, folder: string, kibibytes: number) {
  fs.mkdirSync(folder);
  const mount = (options: string) => spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).status === 0;
  if (!mount(`size=${kibibytes}k`)) skip('mounting a file system is not permitted');
  onTestFinished(() => void spawnSync('umount', ['-l', folder]));
  const filler = `${folder}/filler`;
  return {
    folder,
    fill: () => fill(filler),
    /** Undoes `fill`. */
    free: () => fs.rmSync(filler),
    resize(other: number) {
      if (!mount(`remount,size=${other}k`)) throw new Error('the disk could not be resized');
    },
  };
}
