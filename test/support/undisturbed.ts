/** Puts what is timed before all else that the machine is busy with, where that is allowed: the time is then its own doing. */
import { spawnSync } from 'node:child_process';

const isAllowed = spawnSync('chrt', ['-f', '1', 'true']).status === 0;

/** Puts a running process first. */
export function putFirst(pid: number): void {
  if (isAllowed) spawnSync('chrt', ['-a', '-f', '-p', '1', String(pid)]);
}

/** Puts this process first while it acts. What it starts meanwhile is first for good. */
export async function undisturbed<Result>(act: () => Promise<Result>): Promise<Result> {
  putFirst(process.pid);
  try {
    return await act();
  } finally {
    if (isAllowed) spawnSync('chrt', ['-a', '-o', '-p', '0', String(process.pid)]);
  }
}
