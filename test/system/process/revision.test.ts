/** Tests that a process says which build it is: the version, and the commit of its checkout or its image. */
import { writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { gitIn, noGit } from '../../support/git.ts';
import { copySource } from '../../support/plant.ts';
import { launchCli, startServer } from '../../support/process.ts';
import { version } from '../../support/project.ts';

/** Expects that `--version` prints the version, and this revision if one is given. */
async function expectRevision(source: string, revision?: string) {
  const stdout = revision === undefined ? `${version}\n` : `${version} (${revision})\n`;
  expect(await launchCli(['--version'], { source }).end()).toEqual({ code: 0, stdout, stderr: '' });
}

test.skipIf(noGit)('the commit of the checkout; none before the first', async () => {
  const source = copySource();
  const git = gitIn(source);
  git('init', '--quiet');
  await expectRevision(source);
  git('commit', '--quiet', '--allow-empty', '--message', 'one');
  await expectRevision(source, git('rev-parse', 'HEAD').slice(0, 7));
});

test('the revision of the image, in log, metrics and /readyz', async () => {
  const source = copySource();
  writeFileSync(`${source}/revision`, '0123456789abcdef0123456789abcdef01234567\n');
  const build = { version, revision: '0123456' };
  await expectRevision(source, build.revision);
  const server = await startServer({ source });
  const [line] = await server.seen('stdout', /^.*"starting".*$/m);
  expect(JSON.parse(line)).toMatchObject(build);
  expect(await (await fetch(`${server.opsUrl()}/readyz`)).json()).toEqual({ status: 'ready', ...build });
  expect(await server.metrics()).toContain(`\nanimal_store_build_info{version="${version}",revision="0123456"} 1\n`);
});
