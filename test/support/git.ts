/** Git repositories that a test makes. */
import { execFileSync, spawnSync } from 'node:child_process';

export const noGit = spawnSync('git', ['--version']).error && 'git is not installed';

/** The environment of git: nothing of the machine's configuration, and no repository that a hook of git names. */
export const gitEnv = {
  PATH: process.env.PATH,
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'Test',
  GIT_AUTHOR_EMAIL: 'test@example.com',
  GIT_COMMITTER_NAME: 'Test',
  GIT_COMMITTER_EMAIL: 'test@example.com',
};

/** Returns a function that runs git in a folder, and returns what it prints. */
export function gitIn(folder: string): (...args: string[]) => string {
  return (...args) =>
    execFileSync('git', args, { cwd: folder, env: gitEnv, encoding: 'utf8', stdio: 'pipe' }).trimEnd();
}
