/** A disk that is soon full. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { onTestFinished } from 'vitest';

export interface SmallDisk {
  resize: (kibibytes: number) => void;
}

/** Mounts one over `folder`, which must not exist, until the test ends; undefined where none may be mounted. */
export function mountSmallDisk(folder: string, kibibytes: number): SmallDisk | undefined {
  fs.mkdirSync(folder);
  const mount = (options: string) => spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).status === 0;
  if (!mount(`size=${kibibytes}k`)) return undefined;
  onTestFinished(() => void spawnSync('umount', ['-l', folder]));
  return {
    resize: (other) => {
      if (!mount(`remount,size=${other}k`)) throw new Error('the disk cannot be resized');
    },
  };
}

export const noDisk = 'no file system may be mounted here';
