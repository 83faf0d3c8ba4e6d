/** Runs every command in the console blocks of the README, and then of docs/command-line.md, against a real server. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { startServer } from '../../support/process.ts';
import { blocksOf, pathToNode, projectFolder, read } from '../../support/project.ts';

/** The lines `$ command`, each with the output after it. */
function transcript() {
  const text = read('README.md') + read('docs/command-line.md');
  const parts = blocksOf(text, 'console').flatMap((block) => block.split(/^\$ /m).slice(1));
  return parts.map((part) => {
    const [command = '', ...lines] = part.split('\n');
    return { command, output: lines.join('\n').trimEnd() };
  });
}

/** Output as a pattern; … stands for text that differs from run to run. */
function pattern(output: string) {
  const escaped = output.split('…').map((text) => RegExp.escape(text));
  return new RegExp(`^${escaped.join('[^\\n"]+')}$`);
}

test('every command of the README and of the page on the command line prints what they say', async () => {
  const server = await startServer();
  const cli = `node ${projectFolder}src/cli.ts`;
  const here = (text: string) => text.replaceAll(':3000', `:${server.port}`).replaceAll('npx animal-store', cli);
  const env = {
    PATH: pathToNode,
    KEY: await server.firstKey(),
    PORT: String(server.port),
    OPS_PORT: new URL(server.opsUrl()).port,
  };
  const steps = transcript();
  expect(steps.length).toBeGreaterThan(15);
  for (const { command, output } of steps) {
    const shell = spawnSync('bash', ['--norc', '-c', here(command)], { cwd: server.folder, env, encoding: 'utf8' });
    // They show a terminal, where commands print no lines of a log.
    const notes = shell.stderr.replace(/^\{"level":30,.*"event":.*\n/gm, '');
    const printed = (notes + shell.stdout).replaceAll('\r', '').trimEnd();
    expect(printed, command).toMatch(pattern(here(output)));
  }
  // The folder that .gitignore names.
  expect(readdirSync(server.folder)).toEqual(['data']);
});
