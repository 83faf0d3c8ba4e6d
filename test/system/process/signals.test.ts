/** Signals during the stop: copies, which npm and supervisors send, cut nothing off. */
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { plant } from '../../support/plant.ts';
import { begin, startServer, startWithNpm, tabby } from '../../support/process.ts';
import { converse, rawGet, rawPost, summaryOf } from '../../support/raw.ts';

// As from a terminal, timeout(1) and some supervisors. npm passes the signal on, so that the server gets it twice.
test('SIGINT to all processes of npm start: a request under way is answered, then exit 0', async () => {
  const file = `${temporaryFolder()}/store.db`;
  const npm = await startWithNpm({ DATABASE_URL: `sqlite:${file}` });
  const finish = await begin(npm);
  const end = npm.end('SIGINT');
  await npm.seen('stdout', /"stopping"/);
  // Copies of the signal arrive meanwhile, and idle connections are closed.
  await sleep(350);
  // The connection closes soon.
  expect(await finish()).toMatch(/\r\nconnection: close\r\n/i);
  expect(await end).toMatchObject({ code: 0, stdout: expect.stringContaining('"stopped"') });
  expect([existsSync(file), existsSync(`${file}-wal`)]).toEqual([true, false]);
});

test('a request that never completes is answered as at any time, then exit 0', async () => {
  const server = await startServer();
  const key = await server.firstKey();
  const [head, body] = [rawGet(key, '/v1/pets'), JSON.stringify(tabby)];
  const rows: [expected: string, parts: string[]][] = [
    ['408 request_timeout', [head.slice(0, -2)]],
    ['200, 408 request_timeout', [head, 'GET /v1/pe']],
    ['408 request_timeout', [rawPost(key, body.slice(0, -5), body.length)]],
    ['408 request_timeout', [rawPost(key, '', 1000), ...'x'.repeat(1000)]],
    ['401 invalid_api_key', [rawPost('none', 'x', 100)]],
  ];
  const answers = rows.map(([, parts]) => converse(server.port, parts, { answers: 9, gapMs: 50, deadlineMs: 12_000 }));
  await sleep(300);
  const end = server.end('SIGTERM');
  for (const [row, [expected]] of rows.entries())
    expect((await answers[row])?.map(summaryOf).join(', ')).toBe(expected);
  expect(await end).toMatchObject({ code: 0, stdout: expect.stringContaining('"stopped"') });
});

test('each connection that opened while a stopping process had no processor is served', async () => {
  // Immediates run before timers: these are overdue before a connection is accepted.
  const source = plant(
    'src/server/serve.ts',
    'await untilQuiet(app);',
    `setImmediate(() => {
      process.getBuiltinModule('node:fs').writeSync(2, 'no processor');
      process.kill(process.pid, 'SIGSTOP');
    });
    await untilQuiet(app);`,
  );
  const server = await startServer({ source });
  const key = await server.firstKey();
  const end = server.end('SIGTERM');
  await server.seen('stderr', /no processor/);
  const request = () => converse(server.port, [rawGet(key, '/v1/pets')], { deadlineMs: 12_000 });
  const answers = Promise.all(Array.from(Array(40), request));
  // Far longer than the pauses of a stop.
  await sleep(1000);
  void server.end('SIGCONT');
  expect((await answers).flat().map(summaryOf)).toEqual(Array(40).fill('200'));
  expect(await end).toMatchObject({ code: 0, stdout: expect.stringContaining('"stopped"') });
});

test('a stop ends although clients open connections all the time', async () => {
  const server = await startServer();
  let isOver = false;
  const end = server.end('SIGTERM').finally(() => {
    isOver = true;
  });
  while (!isOver) {
    connect(server.port, '127.0.0.1').on('error', () => undefined);
    await sleep(2);
  }
  expect(await end).toMatchObject({ code: 0, stdout: expect.stringContaining('"stopped"') });
});

test('a stop that does not end, ends at its deadline with exit 1, however many signals follow', async () => {
  const source = plant(
    'src/server/serve.ts',
    'await closeConnections(app, opened?.sockets ?? [app.server]);',
    'await new Promise(() => undefined);',
  );
  const server = await startServer({ source });
  void server.end('SIGTERM');
  await server.seen('stdout', /"stopping"/);
  for (let seconds = 0; seconds < 8; seconds++) {
    await sleep(1000);
    void server.end('SIGTERM');
  }
  expect(await server.end()).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('"the stop did not end within 13 s"'),
  });
});
