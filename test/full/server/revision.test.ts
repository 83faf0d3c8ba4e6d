/** Tests that a process says which build it is: the version, and the commit of its checkout or its image. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { gitIn, noGit } from '../../support/git.ts';
import { copySource } from '../../support/plant.ts';
import { launchCli, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

const { version } = JSON.parse(readFileSync(`${projectFolder}package.json`, 'utf8'));
const hash = '0123456789abcdef0123456789abcdef01234567';

/** Expects that `--version` prints the version, and a revision if one is given. */
async function expectRevision(source: string, revision?: string): Promise<void> {
  const stdout = revision === undefined ? `${version}\n` : `${version} (${revision})\n`;
  expect(await launchCli(['--version'], { source }).end()).toEqual({ code: 0, stdout, stderr: '' });
}

test('--version prints the revision of the image, and none if there is no commit that can be read', async () => {
  const source = copySource();
  await expectRevision(source);
  mkdirSync(path.join(source, '.git'));
  for (const head of ['', 'ref: refs/heads/none\n', 'ref: refs/heads\n', '0123\n']) {
    writeFileSync(path.join(source, '.git/HEAD'), head);
    await expectRevision(source);
  }
  for (const [text, revision] of Object.entries({
    '\n': undefined,
    [`${hash}\n`]: '0123456',
    'build-42\n': 'build-42',
  })) {
    writeFileSync(path.join(source, 'revision'), text);
    await expectRevision(source, revision);
  }
});

test.skipIf(noGit)(
  '--version prints the commit of a branch, also if git has packed it, and of a detached head',
  async () => {
    const source = copySource();
    const git = gitIn(source);
    const expectHead = () => expectRevision(source, git('rev-parse', 'HEAD').slice(0, 7));
    git('init', '--quiet');
    for (const message of ['one', 'two']) git('commit', '--quiet', '--allow-empty', '--message', message);
    await expectHead();
    git('pack-refs', '--all');
    await expectHead();
    git('checkout', '--quiet', '--detach', 'HEAD~1');
    await expectHead();
  },
);

test('a server says it in its log, its metrics and at /readyz', async () => {
  const source = copySource();
  writeFileSync(path.join(source, 'revision'), `${hash}\n`);
  const server = await startServer({ source });
  const build = { version, revision: '0123456' };
  const [line] = await server.seen('stdout', /^.*Server listening.*$/m);
  expect(JSON.parse(line)).toMatchObject(build);
  expect(await (await fetch(`${server.opsUrl()}/readyz`)).json()).toEqual({ status: 'ready', ...build });
  const metrics = await (await fetch(`${server.opsUrl()}/metrics`)).text();
  expect(metrics).toContain(`\nanimal_store_build_info{version="${version}",revision="0123456"} 1\n`);
});
