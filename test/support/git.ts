/** Git repositories that a test makes. */
import { execFileSync, spawnSync } from 'node:child_process';

export const noGit = spawnSync('git', ['--version']).error && 'git is not installed';

/** Nothing of the machine's: no configuration, and no repository that a hook of git names. */
const env = { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
const who = ['-c', 'user.name=Test', '-c', 'user.email=test@example.com', '-c', 'init.defaultBranch=main'];

/** Returns a function that runs git in a folder, and returns what it prints. */
export function gitIn(folder: string): (...args: string[]) => string {
  return (...args) =>
    execFileSync('git', [...who, ...args], { cwd: folder, env, encoding: 'utf8', stdio: 'pipe' }).trimEnd();
}
