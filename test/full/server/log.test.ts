/** Tests of the log's destination: if it is full, closed or not read, the server keeps serving and exits in time. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { openDestination } from '../../../src/server/log-destination.ts';
import { temporaryFolder } from '../../support/app.ts';
import { openClient } from '../../support/client.ts';
import { findPort } from '../../support/known-port.ts';
import { launch } from '../../support/process.ts';
import { nodeOptions, projectFolder } from '../../support/project.ts';
import { makeStore } from '../../support/store-file.ts';

const main = path.join(projectFolder, 'src/main.ts');

/** Starts the server with its stdout redirected by bash. */
async function startWith(redirection: string, more: Record<string, string> = {}) {
  const { env, key, folder } = await makeStore();
  const [port, opsPort] = [await findPort(), await findPort()];
  const command = ['-c', `exec "$@" ${redirection}`, '-', process.execPath, ...nodeOptions, main];
  const { end } = launch('bash', command, {
    folder,
    env: { ...env, ...more, PORT: String(port), OPS_PORT: String(opsPort) },
  });
  const client = openClient(`http://127.0.0.1:${port}`, key, 32);
  while ((await client.get('/v1/pets')).status !== 200) await sleep(20);
  const metric = async (name: string) => {
    const text = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  };
  return { end, client, metric, folder };
}

const destinations = [
  ['full', '> /dev/full', true],
  ['closed after two lines', '> >(head -n 2 > /dev/null)', true],
  ['a pipe that nobody reads', '> >(exec sleep 60 > /dev/null 2>&1)', true],
  ['a file', '> log', false],
] as const;

test.for(destinations)(
  'with a log that is %s, requests are served, lost lines are counted, and SIGTERM ends the process',
  { timeout: 60_000 },
  async ([, redirection, loses]) => {
    const { end, client, metric } = await startWith(redirection);
    // More lines than the pipe and the queue hold together.
    for (let round = 0; round < 30; round++) {
      const answers = await Promise.all(Array.from({ length: 1000 }, () => client.get('/v1/pets')));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    }
    expect((await client.add('x')).status).toBe(201);
    await vi.waitFor(
      async () => {
        const lost = await metric('animal_store_log_lines_lost_total');
        if (loses) expect(lost).toBeGreaterThan(0);
        else expect(lost).toBe(0);
      },
      { timeout: 10_000 },
    );
    expect(await metric('process_resident_memory_bytes')).toBeLessThan(300 * 1024 * 1024);
    await client.close();
    expect((await end('SIGTERM')).code).toBe(0);
  },
);

const line = (text: string) => `{"msg":"${text}"}\n`;

test('lines are written complete and in order, even if one is longer than a write', async () => {
  const file = path.join(temporaryFolder(), 'log');
  const descriptor = fs.openSync(file, 'w');
  const destination = openDestination(descriptor);
  const texts = Array.from({ length: 2000 }, (_, index) => line(`${index} é ${'x'.repeat(index % 997)}`));
  texts.splice(1000, 0, line('long '.repeat(100_000)));
  for (const [index, text] of texts.entries()) {
    destination.write(text);
    if (index % 50 === 0) await sleep(1);
  }
  await destination.end();
  expect(fs.readFileSync(file, 'utf8')).toBe(texts.join(''));
  expect(destination.lost()).toBe(0);
  fs.closeSync(descriptor);
});

test('lines are lost and counted while the disk is full', async () => {
  const descriptor = fs.openSync('/dev/full', 'w');
  const destination = openDestination(descriptor);
  for (let count = 0; count < 10; count++) destination.write(line('lost'));
  await destination.end();
  expect(destination.lost()).toBe(10);
  destination.write(line('lost, too'));
  destination.flushSync();
  expect(destination.lost()).toBe(11);
  fs.closeSync(descriptor);
});

test('at most 4 MiB of lines are queued', async () => {
  const file = path.join(temporaryFolder(), 'log');
  const descriptor = fs.openSync(file, 'w');
  const destination = openDestination(descriptor);
  const text = line('x'.repeat(1000));
  const written = 10_000;
  for (let count = 0; count < written; count++) destination.write(text);
  const lost = destination.lost();
  expect(lost).toBeGreaterThan(written - (4 * 1024 * 1024) / text.length);
  await destination.end();
  expect(fs.readFileSync(file, 'utf8')).toBe(text.repeat(written - lost));
  fs.closeSync(descriptor);
});
