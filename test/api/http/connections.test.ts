/** Tests what ends a connection: bodies that nobody wants, upgrades, and pipelining. */
import { once } from 'node:events';
import { buffer, text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';
import { openSocket } from '../../support/process.ts';
import { converse, rawGet, rawPost, readAnswer } from '../../support/raw.ts';
import { addLong, ask, host, key, lengthOf, pet, post, statusesOf } from './requests.ts';

describe('a request with a body that is not wanted', () => {
  const body = (line: string, more = '') => ask(line, host + more + lengthOf(pet)) + pet;
  const rows: [status: number, request: string][] = [
    ...['GET', 'HEAD'].map((method): [number, string] => [200, body(`${method} /v1/pets`, key)]),
    [204, body('OPTIONS /v1/pets', key)],
    [405, body('PUT /v1/pets', key)],
    ...['GET /v1/pets/7', 'POST /v1/pets'].map((line): [number, string] => [401, body(line)]),
    [404, body('POST /cats')],
    [415, post().replace('application/json', 'text/plain')],
    [413, post(' '.repeat(65_537))],
    [412, post(pet, 'If-None-Match: *\r\n')],
  ];
  const other = 'GET /cats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';

  test('keeps its connection if the body is there', async () => {
    const { port, key } = await startApp();
    for (const [status, request] of rows) {
      const isHead = request.startsWith('HEAD');
      const parts = [request.replace('KEY', key), isHead ? other.replace('GET', 'HEAD') : other];
      const answers = await converse(port, parts, { answers: 2, gapMs: undefined, isHead });
      expect(
        answers.map((each) => each.status),
        request.slice(0, 200),
      ).toEqual([status, 404]);
    }
  });

  test('loses it soon after its response if a part of the body is missing, however much the client sends', async () => {
    const { port, key } = await startApp();
    const cut = rows.filter(([, request]) => !request.includes('If-None-Match'));
    await Promise.all(
      cut.map(async ([status, request]) => {
        const socket = await openSocket(port, { allowHalfOpen: true });
        socket.write(
          request
            .replace('KEY', key)
            .slice(0, -1)
            .replace(/(Content-Length: )/, '$19'),
        );
        const begun = performance.now();
        expect(statusesOf(await text(socket)), request.slice(0, 200)).toEqual([status]);
        // Sent at once after a reset, it would have been lost.
        for (; !socket.destroyed; await sleep(20)) socket.write(' ');
        const ms = performance.now() - begun;
        // After 9 s by the time-out of the request.
        expect(ms, request.slice(0, 200)).toBeLessThan(5000);
      }),
    );
  });
});

describe('an upgrade', () => {
  const upgrade = 'GET /v1/pets HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nKEY\r\n';

  test.for<[what: string, sent: string, statuses: number[]]>([
    ['alone', upgrade, [200]],
    ['without a key', upgrade.replace('KEY', ''), [401]],
    ['three times', upgrade.repeat(3), [200]],
    ['before another request', `${upgrade}GET /cats HTTP/1.1\r\nHost: a\r\n\r\n`, [200]],
  ])('%s is answered as any request, in order, and closes the connection', async ([, sent, statuses]) => {
    const { port, key } = await startApp();
    const parts = [sent.replaceAll('KEY', `Authorization: Bearer ${key}\r\n`)];
    const answers = await converse(port, parts, { answers: 9 });
    expect(answers.map(({ status }) => status)).toEqual(statuses);
    expect(answers.at(-1)?.headers.connection).toBe('close');
  });
});

describe('a request that arrives before the response to the one before it was sent', () => {
  const post201 = (key: string) => rawPost(key, pet);
  const cached = (key: string) => rawGet(key, '/v1/pets?limit=1');

  test.for<[what: string, first: (key: string) => string, status: number]>([
    ['a create that waits for the disk', post201, 201],
    ['a list', (key) => rawGet(key, '/v1/pets'), 200],
    ['a list that is cached', cached, 200],
    ['a list of which nothing is read', (key) => rawGet(key, '/v1/pets?limit=100'), 200],
    ['a 401', () => ask('GET /v1/pets', host), 401],
    ['a page', () => ask('GET /docs', host), 200],
  ])('is never run, and the connection ends with that response: %s', async ([what, first, status]) => {
    const { port, key, store } = await startApp();
    const isLarge = what.endsWith('nothing is read');
    if (isLarge) await addLong(store);
    for (let times = 0; times < 3; times += 1) await converse(port, [cached(key)]);
    const { pets: before } = await store.pets.list({ limit: 100, after: 0n });
    const socket = await openSocket(port);
    socket.pause().write(first(key) + (isLarge ? '' : rawPost(key, pet)));
    if (isLarge) {
      await sleep(200);
      socket.write(rawPost(key, pet));
      await sleep(100);
    }
    // It goes on sending.
    const sending = setInterval(() => socket.write(rawPost(key, pet)), 10);
    const bytes = await buffer(socket);
    clearInterval(sending);
    const { answer, rest } = readAnswer(bytes) ?? {};
    expect([answer?.status, rest?.length]).toEqual([status, 0]);
    if (what.startsWith('a create')) expect(answer?.headers.connection).toBe('close');
    const { pets: after } = await store.pets.list({ limit: 100, after: 0n });
    expect(after.length - before.length).toBe(status === 201 ? 1 : 0);
  });

  test('is served if that response was sent, whatever its kind, on one connection', async () => {
    const { port, key } = await startApp();
    const parts = Array.from(
      Array(300),
      (_, at) => [post201, cached, () => ask('GET /cats', host)][at % 3]?.(key) ?? '',
    );
    const answers = await converse(port, parts, { answers: 300, gapMs: undefined, deadlineMs: 30_000 });
    expect(answers.map(({ status }) => status)).toEqual(parts.map((_, at) => [201, 200, 404][at % 3]));
  });

  test('is not run behind a 503 that closes, because the store never answers', async () => {
    const { port, key, store } = await startApp({ limits: { silenceMs: 300 } });
    store.pets.list = () => new Promise(() => undefined);
    const answers = await converse(port, [rawGet(key, '/v1/pets') + rawPost(key, pet)], { answers: 2 });
    expect(answers).toMatchObject([{ status: 503, headers: { connection: 'close', 'retry-after': '1' } }]);
    await sleep(100);
    expect((await store.pets.find(1n)).pet).toBeUndefined();
  });

  test.for<[what: string, limits: { inFlight?: number }]>([
    ['that wait', {}],
    ['behind a refusal that closes', { inFlight: 0 }],
  ])('of thousands %s, only a packet is read', async ([, limits]) => {
    const { port, key, app, logged } = await startApp({ limits });
    let requests = 0;
    app.server.on('request', () => {
      requests += 1;
    });
    const { stackTraceLimit } = Error;
    const closed = once(app.server, 'connection').then(([onServer]) => once(onServer, 'close'));
    const socket = await openSocket(port);
    socket.write(rawGet(key, '/v1/pets').repeat(10_000));
    await text(socket);
    // A packet has 64 KiB.
    expect(requests).toBeLessThan(1000);
    expect(logged('"msg":"request"')).toHaveLength(1);
    await closed;
    // The errors that Node makes then had none.
    expect(Error.stackTraceLimit).toBe(stackTraceLimit);
  });
});
