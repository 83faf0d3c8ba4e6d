/** What a person sees who starts the server in a terminal: a pseudo-terminal of `script` (util-linux). */
import { spawnSync } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { findPort } from '../../support/known-port.ts';
import { launch } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

const hasScript = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux');

test('in development, settings that differ are one a line, requests have 100 columns, and the addresses come last', async ({
  skip,
}) => {
  if (!hasScript) skip('script of util-linux is not installed');
  const folder = temporaryFolder();
  const env = { TERM: 'xterm', PORT: String(await findPort()), OPS_PORT: 'off' };
  const start = () =>
    launch('script', ['-qec', `'${process.execPath}' '${projectFolder}src/start.cjs'`, '/dev/null'], { folder, env });
  const url = `http://127.0.0.1:${env.PORT}`;
  const last = new RegExp(
    `\\n\\n  Reference   ${url}/docs\\n  API         ${url}/v1\\n  Make a key  ${url}/account\\n\\n`,
  );
  const text = ({ stdout }: { stdout: () => string }) => stripVTControlCharacters(stdout()).replaceAll('\r', '');
  for (const isFirst of [true, false]) {
    const server = start();
    await expect.poll(() => text(server), { timeout: 10_000 }).toMatch(new RegExp(`${last.source}$`));
    expect(text(server)).toMatch(/starting \d.*\n {2}PORT=\d+\n {2}OPS_PORT=off\n\[/);
    expect(text(server).includes('ast_test_')).toBe(isFirst);
    if (isFirst) {
      const [, key] = /^ {2}(ast_test_[0-9A-Za-z]{36})$/m.exec(text(server)) ?? [];
      expect(text(server)).toContain(`\n  curl -H 'Authorization: Bearer ${key}' ${url}/v1/pets\n`);
    }
    const long = `${url}/v1/${'x/'.repeat(100)}`;
    for (const path of [`${url}/docs`, `${url}/docs/page.js`, `${url}/v1/pets`, long]) await fetch(path);
    await expect.poll(() => text(server)).toMatch(/404 GET/);
    const lines = text(server)
      .split('\n')
      .filter((each) => / GET /.test(each));
    expect(lines.map((each) => each.replace(/^[\d:]{8} |[\w-]{36}$|[\d.]+ ms/g, '*'))).toEqual([
      '*200 GET /docs *',
      '*401 GET /v1/pets * *',
      expect.stringMatching(/^\*404 GET \/v1\/x\/.*… \* \*$/),
    ]);
    expect(lines.filter((each) => each.length > 100)).toEqual([]);
    server.end('SIGHUP');
    await server.end('SIGTERM');
  }
});
