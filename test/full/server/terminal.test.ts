/** What a person sees who starts the server in a terminal: a pseudo-terminal of `script` (util-linux). */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { findPort } from '../../support/known-port.ts';
import { launch, type Process } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { makeStore } from '../../support/store-file.ts';

const script = spawnSync('script', ['--version'], { encoding: 'utf8' });
const skipped = script.stdout?.includes('util-linux') ? false : 'script of util-linux is not installed';

interface Terminal extends Process {
  /** What the terminal shows. */
  shown: () => string;
}

function launchInTerminal(env: Record<string, string>, folder = temporaryFolder(), before = ''): Terminal {
  const command = `${before}exec '${process.execPath}' '${path.join(projectFolder, 'src/main.ts')}'`;
  const surroundings = { folder, env: { NO_COLOR: '1', SHELL: '/bin/sh', PORT: '0', OPS_PORT: '0', ...env } };
  const terminal = launch('script', ['--quiet', '--flush', '--command', command, '/dev/null'], surroundings);
  return { ...terminal, shown: () => terminal.stdout().replaceAll('\r\n', '\n') };
}

async function urlOf({ seen }: Terminal): Promise<string> {
  return (await seen('stdout', /Server listening at (http:\/\/[\d.:]+)/))[1] as string;
}

test('in development, the log has one readable line each, and the first key comes with a call to try', async ({
  skip,
}) => {
  if (skipped) skip(skipped);
  const terminal = launchInTerminal({});
  const { seen, shown } = terminal;
  const url = await urlOf(terminal);
  await seen('stdout', /sign-up\r\n/);
  const time = String.raw`\[\d\d:\d\d:\d\d\] INFO: `;
  const key = 'ast_test_[0-9A-Za-z]{36}';
  expect(shown()).toMatch(
    new RegExp(
      [
        `^${time}migrations applied: 0001_initial.sql, .+\n`,
        `${time}Ops port open at http://127\\.0\\.0\\.1:\\d+\n`,
        `${time}Server listening at ${url} {"version":"[\\d.]+"(?:,"revision":"\\w+")?,"settings":{"PORT":0,"OPS_PORT":"0"}}\n`,
        `${time}account created {"event":"account_created","account":1}\n`,
        `${time}key created {"event":"key_created","account":1,"key":1}\n`,
        '\nThe store had no API key, so here is a first one\\. It is shown only now:\n',
        `\n {2}(${key})\n\nTry it:\n\n {2}curl -H 'Authorization: Bearer \\1' ${url}/v1/pets\n`,
        `\nOr make your own at ${url}/account/sign-up\n\n$`,
      ].join(''),
    ),
  );
  const before = shown().length;
  const [, command = ''] = /^ {2}(curl .+)$/m.exec(shown()) ?? [];
  expect(spawnSync('bash', ['-c', `${command} -s`], { encoding: 'utf8' }).stdout).toBe('[]');
  await fetch(`${url}/nowhere`);
  await seen('stdout', /no route.+\r\n/);
  const [first, second] = shown().slice(before).split('\n');
  expect(first).toMatch(new RegExp(`^${time}GET /v1/pets 200 [\\d.]+ ms {"reqId":"[^"]+".*,"key":1}$`));
  expect(second).toMatch(new RegExp(`^${time}GET \\(no route\\) 404 [\\d.]+ ms {"reqId":"[^"]+"[^{]*}$`));
});

test('requests are served while the terminal is stopped, as by Ctrl-S', async ({ skip }) => {
  if (skipped) skip(skipped);
  if (spawnSync('python3', ['--version']).error) skip('python3, which stops the terminal, is not installed');
  const port = await findPort();
  const stop = 'python3 -c "import termios; termios.tcflow(1, termios.TCOOFF)"; ';
  // The store has a key: a first one would be printed on stderr, and Node waits for a terminal there.
  const { env, folder } = await makeStore();
  const { shown } = launchInTerminal({ ...env, PORT: String(port) }, folder, stop);
  const url = `http://127.0.0.1:${port}/v1/pets`;
  const statusOf = () => fetch(url).then(({ status }) => status);
  await vi.waitFor(async () => expect(await statusOf()).toBe(401), 10_000);
  for (let count = 0; count < 10; count += 1) expect(await statusOf()).toBe(401);
  // Longer than the log collects lines.
  await setTimeout(200);
  expect(await statusOf()).toBe(401);
  expect(shown()).toBe('');
});
