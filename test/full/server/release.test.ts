/** Tests `npm run release` on a copy of the project, in a git repository of its own. */
import { spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { newestOf } from '../../../scripts/versions.ts';
import { temporaryFolder } from '../../support/app.ts';
import { gitEnv, gitIn, noGit } from '../../support/git.ts';
import { projectFolder } from '../../support/project.ts';

const { version: current } = JSON.parse(readFileSync(path.join(projectFolder, 'package.json'), 'utf8'));
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
  const state = () => [
    git('rev-parse', 'HEAD'),
    git('status', '--porcelain'),
    read('package.json'),
    read('CHANGELOG.md'),
  ];
  const run = (file: string, ...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(file, args, { cwd: folder, env: gitEnv, encoding: 'utf8' });
    return { status, stdout, stderr };
  };
  return {
    folder,
    read,
    write,
    git,
    state,
    run,
    release: (...args: string[]) => run('node', 'scripts/release.ts', ...args),
  };
}

test.skipIf(noGit)(
  'commits the version, the changelog, the documents and what is derived from the version',
  () => {
    const { read, write, git, run } = copyProject();
    const before = read('CHANGELOG.md');
    const { status, stdout, stderr } = run('npm', 'run', '--silent', 'release', '--', next);
    expect([status, stderr, stdout.split('\n').at(-2)]).toEqual([
      0,
      '',
      `Committed release ${next}. CONTRIBUTING.md says what remains.`,
    ]);
    expect(git('log', '--format=%s')).toBe(`release: ${next}\none`);
    expect(git('status', '--porcelain')).toBe('');
    expect(git('diff', '--name-only', 'HEAD~1').split('\n')).toEqual([
      'CHANGELOG.md',
      'Dockerfile',
      'deploy/kubernetes/image/kustomization.yaml',
      'deploy/kubernetes/postgres/migration-job.yaml',
      `docs/releases/${next}/openapi.quickstart.yaml`,
      `docs/releases/${next}/openapi.yaml`,
      'package-lock.json',
      'package.json',
      'src/pages/reference/changelog.html',
    ]);
    expect(git('diff', '-U0', 'HEAD~1', '--', 'package.json', 'package-lock.json').match(/^[+-] .*/gm)).toEqual([
      ...[`-  "version": "${current}",`, `+  "version": "${next}",`],
      ...[`-      "version": "${current}",`, `+      "version": "${next}",`],
      ...[`-  "version": "${current}",`, `+  "version": "${next}",`],
    ]);
    const date = new Date().toISOString().slice(0, 10);
    expect(read('CHANGELOG.md')).toBe(
      before.replace('## [Unreleased]\n', `## [Unreleased]\n\n## [${next}] - ${date}\n`),
    );
    for (const name of ['openapi.yaml', 'openapi.quickstart.yaml']) {
      expect(read(`docs/releases/${next}/${name}`)).toBe(read(name));
      expect(parse(read(name)).info.version).toBe('1.0.0');
    }
    expect(read('Dockerfile')).toContain(`image.version="${next}"`);
    // Not the digest of the last release.
    const image = (digest: string) => `    newTag: ${next}\n    digest: sha256:${digest.repeat(64)}\n`;
    expect(read(imageFile)).toContain(image('0'));
    write(imageFile, read(imageFile).replace(image('0'), image('b')));
    expect(run('node', 'scripts/generate.ts').stdout).toBe('');
    git('checkout', imageFile);
    expect(run('node', 'scripts/generate.ts')).toEqual({ status: 0, stdout: '', stderr: '' });
    expect(run('node', 'src/cli.ts', '--version').stdout).toBe(`${next} (${git('rev-parse', 'HEAD').slice(0, 7)})\n`);
    // The next comparison is with this release, and the next release needs a change of its own.
    expect(run('node', 'scripts/compatible.ts').status).toBe(0);
    expect(newestOf(readdirSync(path.join(projectFolder, 'docs/releases')).concat(next))).toBe(next);
    expect(run('node', 'scripts/release.ts', `${major + 1}.0.0`)).toEqual({
      status: 1,
      stdout: '',
      stderr: 'CHANGELOG.md lists no change under [Unreleased].\n',
    });
  },
  60_000,
);

test.skipIf(noGit)(
  'refuses in one sentence, and changes nothing',
  () => {
    const { folder, git, state, release } = copyProject();
    const refuses = (args: string[], sentence: string) => {
      const before = state();
      expect(release(...args), args[0]).toEqual({ status: 1, stdout: '', stderr: `${sentence}\n` });
      expect(state()).toEqual(before);
    };
    for (const text of ['', 'v1.1.0', '1.1', '01.1.0', `${next}-rc.1`])
      refuses([text], 'The version must be three numbers such as 1.1.0: npm run release -- 1.1.0.');
    for (const text of [current, '0.999.999'])
      refuses([text], `${text} is not greater than ${current}, the current version.`);
    appendFileSync(path.join(folder, 'README.md'), '\n');
    refuses([next], 'The working tree has changes: commit them first.');
    git('checkout', 'README.md');
    writeFileSync(path.join(folder, 'new.txt'), '');
    refuses([next], 'The working tree has changes: commit them first.');
    git('clean', '--force', '--quiet');
    mkdirSync(path.join(folder, 'docs/releases', next));
    refuses([next], `The folder docs/releases/${next} exists already.`);
  },
  60_000,
);
