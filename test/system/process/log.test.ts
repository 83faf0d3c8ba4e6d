/** Tests of the log's destination: if it is full, closed or not read, the server keeps serving and exits in time. */
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { openDestination } from '../../../src/server/log-destination.ts';
import { temporaryFolder } from '../../support/app.ts';
import { findPort } from '../../support/known-port.ts';
import { makeStore, serve } from '../../support/store-file.ts';

test.for([
  ['full', '> /dev/full', true],
  ['closed after two lines', '> >(head -n 2 > /dev/null)', true],
  ['a pipe that nobody reads', '> >(exec sleep 60 > /dev/null 2>&1)', true],
  ['a file', '> log', false],
] as const)(
  'with a log that is %s, requests are served, lost lines are counted, and SIGTERM ends the process',
  async ([, redirection, loses]) => {
    const opsPort = await findPort();
    const under = ['bash', '-c', `exec "$@" ${redirection}`, '-'];
    const { server, get, add, close } = await serve(await makeStore(), 32, {
      under,
      env: { OPS_PORT: String(opsPort) },
    });
    const metric = async (name: string) => {
      const text = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
      return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
    };
    // More lines than the pipe and the queue hold together.
    for (let round = 0; round < 30; round++) {
      const answers = await Promise.all(Array.from(Array(1000), () => get('/v1/pets')));
      // 503: on a busy machine, turns are too long to serve all.
      expect(answers.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
    }
    expect((await add('x')).status).toBe(201);
    const loss = async () => (await metric('animal_store_log_lines_lost_total')) > 0;
    await expect.poll(loss).toBe(loses);
    expect(await metric('process_resident_memory_bytes')).toBeLessThan(300 * 1024 * 1024);
    await close();
    await server.stop();
  },
);

const line = (text: string) => `{"msg":"${text}"}\n`;

function openLog() {
  const file = `${temporaryFolder()}/log`;
  const descriptor = fs.openSync(file, 'w');
  onTestFinished(() => fs.closeSync(descriptor));
  return { ...openDestination(descriptor), content: () => fs.readFileSync(file, 'utf8') };
}

test('lines are written complete and in order, even if one is longer than a write', async () => {
  const log = openLog();
  const texts = Array.from(Array(2000), (_, index) => line(`${index} é ${'x'.repeat(index % 997)}`));
  texts.splice(1000, 0, line('long '.repeat(100_000)));
  for (const [index, text] of texts.entries()) {
    log.write(text);
    if (index % 50 === 0) await sleep(1);
  }
  await log.end();
  expect([log.content(), log.lost()]).toEqual([texts.join(''), 0]);
});

test('at most 4 MiB of lines are queued', async () => {
  const log = openLog();
  const text = line('x'.repeat(1000));
  for (let count = 0; count < 10_000; count++) log.write(text);
  const lost = log.lost();
  expect(lost).toBeGreaterThan(10_000 - (4 * 1024 * 1024) / text.length);
  await log.end();
  expect(log.content()).toBe(text.repeat(10_000 - lost));
});
