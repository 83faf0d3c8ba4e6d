/** Tests that a process says which build it is: the version, and the commit of its checkout or its image. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { gitIn, noGit } from '../../support/git.ts';
import { copySource } from '../../support/plant.ts';
import { launchCli, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

const { version } = JSON.parse(readFileSync(path.join(projectFolder, 'package.json'), 'utf8'));
const hash = '0123456789abcdef0123456789abcdef01234567';

async function versionOf(source: string): Promise<string> {
  const { code, stdout, stderr } = await launchCli(['--version'], { source }).end();
  expect([code, stderr]).toEqual([0, '']);
  return stdout;
}

/** A copy of the source in a new repository with one commit. */
function makeCheckout(): { source: string; git: ReturnType<typeof gitIn>; text: () => string } {
  const source = copySource();
  const git = gitIn(source);
  git('init', '--quiet');
  git('commit', '--quiet', '--allow-empty', '--message', 'one');
  return { source, git, text: () => `${version} (${git('rev-parse', 'HEAD').slice(0, 7)})\n` };
}

describe('animal-store --version prints', () => {
  test('the version alone if there is no commit, or none that can be read', async () => {
    const source = copySource();
    expect(await versionOf(source)).toBe(`${version}\n`);
    writeFileSync(path.join(source, 'revision'), '\n');
    expect(await versionOf(source)).toBe(`${version}\n`);
    mkdirSync(path.join(source, '.git'));
    expect(await versionOf(source)).toBe(`${version}\n`);
    for (const head of ['', 'ref: refs/heads/none\n', 'ref: refs/heads\n', '0123\n']) {
      writeFileSync(path.join(source, '.git/HEAD'), head);
      expect(await versionOf(source), head).toBe(`${version}\n`);
    }
  });

  test('the revision that the image was built with', async () => {
    const source = copySource();
    writeFileSync(path.join(source, 'revision'), `${hash}\n`);
    expect(await versionOf(source)).toBe(`${version} (0123456)\n`);
    writeFileSync(path.join(source, 'revision'), 'build-42\n');
    expect(await versionOf(source)).toBe(`${version} (build-42)\n`);
  });

  test.skipIf(noGit)('the commit of a branch, also if git has packed it, and of a detached head', async () => {
    const { source, git, text } = makeCheckout();
    expect(await versionOf(source)).toBe(text());
    git('pack-refs', '--all');
    expect(await versionOf(source)).toBe(text());
    git('commit', '--quiet', '--allow-empty', '--message', 'two');
    expect(await versionOf(source)).toBe(text());
    git('checkout', '--quiet', '--detach', 'HEAD~1');
    expect(await versionOf(source)).toBe(text());
  });
});

test('a server says it in its log, its metrics and at /readyz', async () => {
  const source = copySource();
  writeFileSync(path.join(source, 'revision'), `${hash}\n`);
  const server = await startServer({ source });
  const line = server
    .stdout()
    .split('\n')
    .find((each) => each.includes('Server listening'));
  expect(JSON.parse(line as string)).toMatchObject({ version, revision: '0123456' });
  const ready = await fetch(`${server.opsUrl()}/readyz`);
  expect([ready.status, await ready.text()]).toEqual([
    200,
    `{"status":"ready","version":"${version}","revision":"0123456"}`,
  ]);
  const metrics = await (await fetch(`${server.opsUrl()}/metrics`)).text();
  expect(metrics).toContain(`\nanimal_store_build_info{version="${version}",revision="0123456"} 1\n`);
});
