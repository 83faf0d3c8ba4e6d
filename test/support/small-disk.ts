/** A small file system, for tests of a full disk. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { onTestFinished, type TestContext } from 'vitest';

/** Creates `folder` and mounts a small file system on it until the test ends. Skips the test if the process may not mount one. */
export function mountSmallDisk({ skip }: Pick<TestContext, 'skip'>, folder: string, kibibytes: number) {
  fs.mkdirSync(folder);
  const mount = (options: string) => spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).status === 0;
  if (!mount(`size=${kibibytes}k`)) skip('mounting a file system is not permitted');
  onTestFinished(() => void spawnSync('umount', ['-l', folder]));
  return {
    resize(other: number) {
      if (!mount(`remount,size=${other}k`)) throw new Error('the disk could not be resized');
    },
  };
}
