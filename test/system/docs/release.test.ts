/** Tests `npm run release` on a copy of the project, in a git repository of its own. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { gitEnv, gitIn, noGit } from '../../support/git.ts';
import { copyProject } from '../../support/plant.ts';
import { version } from '../../support/project.ts';

const [major] = version.split('.').map(Number);
const next = `${major}.1000.0`;
const released = ['docs/releases/openapi.quickstart.yaml', 'docs/releases/openapi.yaml'];
const imageFile = 'deploy/kubernetes/image/kustomization.yaml';

/** A repository with one commit, which lists one change as unreleased. */
function makeRepository() {
  const folder = copyProject();
  const read = (name: string) => readFileSync(`${folder}/${name}`, 'utf8');
  const write = (name: string, text: string) => writeFileSync(`${folder}/${name}`, text);
  write('CHANGELOG.md', read('CHANGELOG.md').replace(/(?<=## \[Unreleased\]\n)/, '\n### Added\n\n- A change.\n'));
  // As if the last release had had another interface.
  for (const name of released) write(name, 'openapi: 3.1.0\n');
  write(imageFile, read(imageFile).replace(/(?<=sha256:).*/, 'a'.repeat(64)));
  const git = gitIn(folder);
  git('init', '--quiet');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'one');
  const run = (script: string, ...args: string[]) =>
    spawnSync('node', [`scripts/${script}.ts`, ...args], { cwd: folder, env: gitEnv, encoding: 'utf8' });
  return { read, git, run };
}

test.skipIf(noGit)('commits the version, the changelog, the documents and what is derived from the version', () => {
  const { read, git, run } = makeRepository();
  const before = read('CHANGELOG.md');
  expect(run('release', next)).toMatchObject({ status: 0, stderr: '' });
  expect(git('diff', '--name-only', 'HEAD~1').split('\n')).toEqual([
    'CHANGELOG.md',
    'Dockerfile',
    imageFile,
    'deploy/kubernetes/postgres/migration-job.yaml',
    ...released,
    'package-lock.json',
    'package.json',
    ...['animal-store', 'changelog', 'quickstart'].map((name) => `src/pages/reference/${name}.html`),
  ]);
  const date = new Date().toISOString().slice(0, 10);
  expect(read('CHANGELOG.md')).toBe(before.replace('## [Unreleased]\n', `## [Unreleased]\n\n## [${next}] - ${date}\n`));
  expect(read('docs/releases/openapi.yaml')).toBe(read('openapi.yaml'));
  // Not the digest of the last release.
  expect(read(imageFile)).toContain(`    newTag: ${next}\n    digest: sha256:${'0'.repeat(64)}\n`);
  // The next release needs a change of its own.
  expect(run('release', `${major + 1}.0.0`)).toMatchObject({
    status: 1,
    stderr: 'CHANGELOG.md lists no change under [Unreleased].\n',
  });
});
