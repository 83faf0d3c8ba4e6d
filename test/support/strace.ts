/** Command lines that run a program under strace, to record its system calls or to make them fail or slow. */
import { spawnSync } from 'node:child_process';
import type { TestContext } from 'vitest';

const { error, status } = spawnSync('strace', ['-o', '/dev/null', 'true']);

/** For beforeEach: skips the test if strace does not work. */
export function needStrace({ skip }: TestContext) {
  skip(status !== 0, `strace is not ${error ? 'installed' : 'allowed'}`);
}

// With -D the child process is the traced program, not strace: it gets the signals, and the exit code is its own.
const around = ['strace', '-D', '-f', '-qq', '--seccomp-bpf'];

/** Writes to `log` every call that changes a file or sends a response, complete and in order. */
export function tracing(log: string) {
  const calls = 'openat,unlink,pwrite64,ftruncate,fsync,fdatasync,write,writev';
  return [...around, '-xx', '-y', '-s', '1000000', '-e', `trace=${calls}`, '-o', log];
}

/** Writes to `log` which files are written, synced and renamed, without their content. */
export function tracingFiles(log: string) {
  return [...around, '-y', '-s', '0', '-e', 'trace=pwrite64,write,writev,fsync,rename', '-o', log];
}

/** Tampers with `calls` on `files` only. `tampering` as in strace(1): error=EIO, delay_exit=1s, when=3+ … */
export function injecting(calls: string, tampering: string, ...files: string[]) {
  const paths = files.flatMap((file) => ['-P', file]);
  return [...around, '-o', '/dev/null', ...paths, '-e', `trace=${calls}`, '-e', `inject=${calls}:${tampering}`];
}
