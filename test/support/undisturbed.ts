/** Puts what is timed before all else that the machine is busy with, where that is allowed: the time is then its own doing. */
import { spawnSync } from 'node:child_process';
import { onTestFinished } from 'vitest';

const isAllowed = spawnSync('chrt', ['-f', '1', 'true']).status === 0;

/** For `launchServer({ under })`. */
export const undisturbed = isAllowed ? ['chrt', '-f', '1'] : [];

/** A process that runs already, until the test ends: this one, and what it starts, unless told which. */
export function runUndisturbed(pid = process.pid): void {
  if (!isAllowed) return;
  spawnSync('chrt', ['-a', '-f', '-p', '1', String(pid)]);
  onTestFinished(() => void spawnSync('chrt', ['-a', '-o', '-p', '0', String(pid)]));
}
