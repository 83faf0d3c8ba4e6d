/** Tests `npm run release` on a copy of the project, in a git repository of its own. */
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { gitEnv, gitIn, noGit } from '../../support/git.ts';
import { projectFolder } from '../../support/project.ts';

const { version: current } = JSON.parse(readFileSync(`${projectFolder}package.json`, 'utf8'));
const [major] = current.split('.').map(Number);
const next = `${major}.1000.0`;
const imageFile = 'deploy/kubernetes/image/kustomization.yaml';

/** A repository with one commit, which lists one change as unreleased. */
function copyProject() {
  const folder = temporaryFolder();
  const ignored = [
    '.git',
    'node_modules',
    'bench',
    ...readFileSync(`${projectFolder}.gitignore`, 'utf8').split(/\/?\n/),
  ];
  for (const name of readdirSync(projectFolder).filter((name) => !ignored.includes(name)))
    cpSync(path.join(projectFolder, name), path.join(folder, name), { recursive: true });
  symlinkSync(path.join(projectFolder, 'node_modules'), path.join(folder, 'node_modules'));
  const read = (name: string) => readFileSync(path.join(folder, name), 'utf8');
  const write = (name: string, text: string) => writeFileSync(path.join(folder, name), text);
  write('CHANGELOG.md', read('CHANGELOG.md').replace(/(?<=## \[Unreleased\]\n)/, '\n### Added\n\n- A change.\n'));
  write(imageFile, read(imageFile).replace(/(?<=sha256:).*/, 'a'.repeat(64)));
  const git = gitIn(folder);
  git('init', '--quiet');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'one');
  const run = (script: string, ...args: string[]) =>
    spawnSync('node', [`scripts/${script}.ts`, ...args], { cwd: folder, env: gitEnv, encoding: 'utf8' });
  return { read, write, git, run };
}

test.skipIf(noGit)(
  'commits the version, the changelog, the documents and what is derived from the version',
  { timeout: 240_000 },
  () => {
    const { read, git, run } = copyProject();
    const before = read('CHANGELOG.md');
    expect(run('release', next)).toMatchObject({ status: 0, stderr: '' });
    expect(git('log', '--format=%s')).toBe(`release: ${next}\none`);
    expect(git('status', '--porcelain')).toBe('');
    expect(git('diff', '--name-only', 'HEAD~1').split('\n')).toEqual([
      ...['CHANGELOG.md', 'Dockerfile', imageFile, 'deploy/kubernetes/postgres/migration-job.yaml'],
      ...['openapi.quickstart.yaml', 'openapi.yaml'].map((name) => `docs/releases/${next}/${name}`),
      ...['package-lock.json', 'package.json', 'src/pages/reference/changelog.html'],
    ]);
    const versions = git('diff', '-U0', 'HEAD~1', '--', 'package.json', 'package-lock.json').match(/^[+-] .*/gm);
    const lines = [`-"version": "${current}",`, `+"version": "${next}",`];
    expect(versions?.map((line) => line.replace(/ +(?=")/, ''))).toEqual([...lines, ...lines, ...lines]);
    const date = new Date().toISOString().slice(0, 10);
    expect(read('CHANGELOG.md')).toBe(
      before.replace('## [Unreleased]\n', `## [Unreleased]\n\n## [${next}] - ${date}\n`),
    );
    expect(read(`docs/releases/${next}/openapi.yaml`)).toBe(read('openapi.yaml'));
    // Not the digest of the last release.
    expect(read(imageFile)).toContain(`    newTag: ${next}\n    digest: sha256:${'0'.repeat(64)}\n`);
    // The next comparison is with this release, and the next release needs a change of its own.
    expect(run('generate')).toMatchObject({ status: 0, stdout: '' });
    expect(run('compatible').status).toBe(0);
    expect(run('release', `${major + 1}.0.0`)).toMatchObject({
      status: 1,
      stderr: 'CHANGELOG.md lists no change under [Unreleased].\n',
    });
  },
);

test.skipIf(noGit)('refuses in one sentence, and changes nothing', { timeout: 240_000 }, () => {
  const { write, git, run } = copyProject();
  const refuses = (version: string, sentence: string) => {
    const head = git('rev-parse', 'HEAD');
    const status = git('status', '--porcelain');
    expect(run('release', version), version).toMatchObject({ status: 1, stdout: '', stderr: `${sentence}\n` });
    expect([git('rev-parse', 'HEAD'), git('status', '--porcelain')]).toEqual([head, status]);
  };
  for (const text of ['v1.1.0', '01.1.0', `${next}-rc.1`])
    refuses(text, `The version must be three numbers, and greater than ${current}: npm run release -- VERSION.`);
  refuses(current, `The version must be three numbers, and greater than ${current}: npm run release -- VERSION.`);
  write('new.txt', '');
  refuses(next, 'The working tree has changes: commit them first.');
});
