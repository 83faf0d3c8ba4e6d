/** strace around a server or a command: what it asks of the disk, in order, or a disk that fails or is slow. */
import { spawnSync } from 'node:child_process';
import type { TestContext } from 'vitest';

const missing = spawnSync('strace', ['-o', '/dev/null', 'true']).status !== 0;

/** For beforeEach: skips the test where there is no strace. */
export function needStrace({ skip }: TestContext): void {
  skip(missing, 'strace is not installed, or not allowed');
}

// -D leaves the process in the place of the program that was started: signals and the exit code are its own.
const around = ['strace', '-D', '-f', '-qq', '--seccomp-bpf'];

/** Writes to `log` every call that changes a file or answers a client, whole and in the order in which they happened. */
export function tracing(log: string): string[] {
  const calls = 'openat,unlink,pwrite64,ftruncate,fsync,fdatasync,write,writev';
  return [...around, '-xx', '-y', '-s', '1000000', '-e', `trace=${calls}`, '-o', log];
}

/** Writes to `log` which files are written, synced and renamed, without what is written to them. */
export function tracingFiles(log: string): string[] {
  return [...around, '-y', '-s', '0', '-e', 'trace=pwrite64,write,writev,fsync,rename', '-o', log];
}

/** Tampers with `calls` on `files` alone, as strace(1) describes: error=EIO, delay_exit=1s, when=3+ … */
export function injecting(calls: string, tampering: string, ...files: string[]): string[] {
  const paths = files.flatMap((file) => ['-P', file]);
  return [...around, '-o', '/dev/null', ...paths, '-e', `trace=${calls}`, '-e', `inject=${calls}:${tampering}`];
}
