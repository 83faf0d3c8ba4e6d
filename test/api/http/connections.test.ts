/** Tests what ends a connection: bodies that nobody wants, upgrades, too many requests, and silence. */
import { once } from 'node:events';
import { buffer, text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';
import { openSocket } from '../../support/process.ts';
import { converse, rawGet, rawPost, readAnswer } from '../../support/raw.ts';
import { ask, host, key, lengthOf, pet, post } from './requests.ts';

const statusesOf = (all: string) => [...all.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));

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
      const socket = await openSocket(port);
      socket.write(request.replace('KEY', key) + other);
      expect(statusesOf(await text(socket)), request.slice(0, 200)).toEqual([status, 404]);
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
  const plain = 'GET /cats HTTP/1.1\r\nHost: a\r\n\r\n';

  test.for<[what: string, sent: string, statuses: number[]]>([
    ['alone', upgrade, [200]],
    ['without a key', upgrade.replace('KEY', ''), [401]],
    ['three times', upgrade.repeat(3), [200]],
    ['behind another request', plain + upgrade, [404, 200]],
    ['before another request', upgrade + plain, [200]],
  ])('%s is answered as any request, in order, and closes the connection', async ([, sent, statuses]) => {
    const { port, key } = await startApp();
    const parts = [sent.replaceAll('KEY', `Authorization: Bearer ${key}\r\n`)];
    const answers = await converse(port, parts, { answers: 9 });
    expect(answers.map(({ status }) => status)).toEqual(statuses);
    expect(answers.at(-1)?.headers.connection).toBe('close');
  });
});

describe('pipelined requests', () => {
  test.for([false, true])('32 are all answered in order, also if the server stops (%s)', async (stops) => {
    const { port, key } = await startApp({ draining: () => stops });
    const limits = Array.from(Array(32), (_, index) => 1 + index);
    const sent = limits.map((limit) => (limit % 4 ? rawGet(key, `/v1/pets?limit=${limit}`) : rawPost(key, pet)));
    const answers = await converse(port, [sent.join('')], { answers: 32 });
    const seen = answers.map(({ status, headers }) =>
      status === 201 ? 201 : Number(/limit=(\d+)/.exec(headers.link ?? '')?.[1]),
    );
    expect(seen).toEqual(limits.map((limit) => (limit % 4 ? limit : 201)));
    const closing = answers.map(({ headers }) => headers.connection === 'close').indexOf(true);
    expect(closing).toBe(stops ? 31 : -1);
  });

  test('each runs when those before are answered', async () => {
    const { port, key, store } = await startApp();
    const { add } = store.pets;
    store.pets.add = (...input) => sleep(50).then(() => add(...input));
    const answers = await converse(port, [(rawPost(key, pet) + rawGet(key, '/v1/pets')).repeat(3)], { answers: 6 });
    expect(answers.map(({ text: body }) => body.split('categoryId').length - 1)).toEqual([1, 1, 1, 2, 1, 3]);
  });

  test('none is served behind a 503 that closes the connection, because the store never answers', async () => {
    const { port, key, store } = await startApp({ bounds: { silenceMs: 300 } });
    store.pets.list = () => new Promise(() => undefined);
    const answers = await converse(port, [rawGet(key, '/v1/pets') + rawPost(key, pet)], { answers: 2 });
    expect(answers).toMatchObject([{ status: 503, headers: { connection: 'close', 'retry-after': '1' } }]);
    await sleep(100);
    expect((await store.pets.find(1n)).pet).toBeUndefined();
  });

  test('the 33rd resets the connection', async () => {
    const { port, key, store, logged } = await startApp();
    const gate = Promise.withResolvers<void>();
    const { add } = store.pets;
    store.pets.add = (...input) => gate.promise.then(() => add(...input));
    const all = converse(port, [rawPost(key, pet) + rawGet(key, '/v1/pets').repeat(32)], { answers: 33 });
    await expect(all).rejects.toThrow('ECONNRESET');
    gate.resolve();
    await expect.poll(() => logged('"msg":"request"').length).toBe(32);
  });

  test.for<[what: string, bounds: { inFlight?: number }]>([
    ['that wait', {}],
    ['behind a refusal that closes', { inFlight: 0 }],
  ])('of thousands %s, only a packet is read', async ([, bounds]) => {
    const { port, key, app } = await startApp({ bounds });
    let requests = 0;
    app.server.on('request', () => {
      requests += 1;
    });
    const socket = await openSocket(port);
    socket.write(rawGet(key, '/v1/pets').repeat(10_000));
    await expect(text(socket)).rejects.toThrow('ECONNRESET');
    // A packet has 64 KiB.
    expect(requests).toBeLessThan(1000);
  });
});

describe('silence', () => {
  test('a body that pauses behind another response has the time of a request', async () => {
    const { port, key } = await startApp({ bounds: { silenceMs: 400 } });
    const socket = await openSocket(port);
    const post = rawPost(key, pet).replace('HTTP/1.1', 'HTTP/1.1\r\nConnection: close');
    socket.write(`GET /cats HTTP/1.1\r\nHost: a\r\n\r\n${post.slice(0, -5)}`);
    await sleep(300);
    socket.write(post.slice(-5));
    expect(statusesOf(await text(socket))).toEqual([404, 201]);
  });

  test('a client that reads nothing is reset; one that reads slowly and an idle one are not', async () => {
    const { port, key, call, add } = await startApp({ bounds: { silenceMs: 1000, petNameCharacters: 1000 } });
    await Promise.all(Array.from(Array(100), () => add({ name: '🐈'.repeat(1000), categoryId: 1 })));
    expect((await call('GET', '/v1/pets?limit=1')).status).toBe(200);
    const many = rawGet(key, '/v1/pets?limit=100').repeat(32);
    const [deaf, slow, idle] = await Promise.all([openSocket(port), openSocket(port), openSocket(port)]);
    deaf.pause().write(many);
    slow.write(many.replace(/\r\n\r\n$/, '\r\nConnection: close\r\n\r\n'));
    idle.write(rawGet(key, '/v1/pets?limit=1'));
    await once(idle, 'readable');
    idle.read();
    let bytes = 0;
    for await (const part of slow) {
      bytes += part.length;
      await sleep(part.length / 4000);
    }
    // Twelve million bytes at most 4 MB a second.
    expect(bytes).toBeGreaterThan(12_000_000);
    await expect(buffer(deaf)).rejects.toThrow('ECONNRESET');
    idle.write(rawGet(key, '/v1/pets?limit=1'));
    expect(readAnswer((await once(idle, 'data'))[0])?.answer.status).toBe(200);
  });
});
