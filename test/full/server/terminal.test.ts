/** What a person sees who starts the server in a terminal: a pseudo-terminal of `script` (util-linux). */
import { spawnSync } from 'node:child_process';
import { setTimeout } from 'node:timers/promises';
import { beforeEach, expect, test, vi } from 'vitest';
import { findPort } from '../../support/known-port.ts';
import { launch } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { makeStore } from '../../support/store-file.ts';

beforeEach(({ skip }) => {
  const { stdout } = spawnSync('script', ['--version'], { encoding: 'utf8' });
  if (!stdout?.includes('util-linux')) skip('script of util-linux is not installed');
});

function launchInTerminal(before: string, { folder, env }: { folder?: string; env: Record<string, string> }) {
  const command = `${before}exec '${process.execPath}' '${projectFolder}src/main.ts'`;
  const given = { NO_COLOR: '1', SHELL: '/bin/sh', PORT: '0', OPS_PORT: '0', ...env };
  const surroundings = { env: given, ...(folder && { folder }) };
  return launch('script', ['--quiet', '--flush', '--command', command, '/dev/null'], surroundings);
}

test('in development, the log has one readable line each, and the first key comes with a call to try', async () => {
  const { seen } = launchInTerminal('', { env: {} });
  const time = String.raw`^\[\d\d:\d\d:\d\d\] INFO: `;
  const [, url] = await seen('stdout', new RegExp(`${time}Server listening at (http:\\S+) {"version"`, 'm'));
  const [, key] = await seen('stdout', /^ {2}(ast_test_[0-9A-Za-z]{36})\r$/m);
  const [, command] = await seen('stdout', /^ {2}(curl .+)\r$/m);
  expect(command).toBe(`curl -H 'Authorization: Bearer ${key}' ${url}/v1/pets`);
  await fetch(`${url}/v1/pets`, { headers: { authorization: `Bearer ${key}` } });
  await fetch(`${url}/nowhere`);
  await seen('stdout', new RegExp(`${time}GET /v1/pets 200 [\\d.]+ ms {"reqId":"[^"]+".*,"key":1}\r$`, 'm'));
  await seen('stdout', new RegExp(`${time}GET \\(no route\\) 404 [\\d.]+ ms {"reqId":"[^"]+"[^{]*}\r$`, 'm'));
});

test('requests are served while the terminal is stopped, as by Ctrl-S', async ({ skip }) => {
  if (spawnSync('python3', ['--version']).error) skip('python3, which stops the terminal, is not installed');
  const port = await findPort();
  const stop = 'python3 -c "import termios; termios.tcflow(1, termios.TCOOFF)"; ';
  // The store has a key: a first one would be printed on stderr, and Node waits for a terminal there.
  const { env, folder } = await makeStore();
  const terminal = launchInTerminal(stop, { folder, env: { ...env, PORT: String(port) } });
  const statusOf = () => fetch(`http://127.0.0.1:${port}/v1/pets`).then(({ status }) => status);
  await vi.waitFor(async () => expect(await statusOf()).toBe(401), 10_000);
  for (let count = 0; count < 10; count += 1) expect(await statusOf()).toBe(401);
  // Longer than the log collects lines.
  await setTimeout(200);
  expect(await statusOf()).toBe(401);
  expect(terminal.stdout()).toBe('');
});
