/** What a person sees who starts the server in a terminal: a pseudo-terminal of `script` (util-linux). */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { launch } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

test('in development, the log has one readable line each, and the first key comes with a call to try', async ({
  skip,
}) => {
  const { stdout } = spawnSync('script', ['--version'], { encoding: 'utf8' });
  if (!stdout?.includes('util-linux')) skip('script of util-linux is not installed');
  const start = `exec '${process.execPath}' '${projectFolder}src/main.ts'`;
  const env = { NO_COLOR: '1', SHELL: '/bin/sh', PORT: '0', OPS_PORT: '0' };
  const { seen } = launch('script', ['--quiet', '--flush', '--command', start, '/dev/null'], { env });
  const time = String.raw`^\[\d\d:\d\d:\d\d\] INFO: `;
  const [, url] = await seen('stdout', new RegExp(`${time}Server listening at (http:\\S+)`, 'm'));
  const [, key] = await seen('stdout', /^ {2}(ast_test_[0-9A-Za-z]{36})\r$/m);
  const [, command] = await seen('stdout', /^ {2}(curl .+)\r$/m);
  expect(command).toBe(`curl -H 'Authorization: Bearer ${key}' ${url}/v1/pets`);
  await fetch(`${url}/v1/pets`, { headers: { authorization: `Bearer ${key}` } });
  await fetch(`${url}/nowhere`);
  await seen('stdout', new RegExp(`${time}GET /v1/pets 200 [\\d.]+ ms {"reqId":"[^"]+".*,"key":1}\r$`, 'm'));
  await seen('stdout', new RegExp(`${time}GET \\(no route\\) 404 [\\d.]+ ms {"reqId":"[^"]+"[^{]*}\r$`, 'm'));
});
