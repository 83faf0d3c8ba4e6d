/** The code of the last release, from the history of this repository. */
import { execFileSync, spawnSync } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { copySource } from './plant.ts';
import { projectFolder } from './project.ts';
import { temporaryFolder } from './store.ts';

/** The first migration that 1.0.0 did not have. There is no tag: 1.0.0 stood at the commit before. */
const firstSince = 'migrations/sqlite/0004_pet_revision.sql';

const git = (...args: string[]) =>
  spawnSync('git', args, { cwd: projectFolder, maxBuffer: 100_000_000, encoding: 'buffer' });

const lastCommit = ((): string | undefined => {
  const added = git('log', '--diff-filter=A', '--format=%H', '--', firstSince).stdout?.toString().trim();
  const commit = git('rev-parse', '--verify', '--quiet', `${added}^`).stdout?.toString().trim();
  return commit || undefined;
})();

/** Why the last release cannot be run. */
export const missingRelease = lastCommit === undefined && 'the commit of the last release is not in the history here';

/** A new folder with the last release. It needs packages that are now among those for development. */
export function lastRelease(): string {
  const folder = temporaryFolder();
  execFileSync('tar', ['-x', '-C', folder], { input: git('archive', lastCommit as string).stdout });
  symlinkSync(path.join(projectFolder, 'node_modules'), path.join(folder, 'node_modules'));
  return folder;
}

/** A new folder with this release's code and one migration more. */
export function laterRelease(engine: 'sqlite' | 'postgres', name: string, sql: string): string {
  const folder = copySource();
  writeFileSync(path.join(folder, 'migrations', engine, name), sql);
  return folder;
}
