/** Tests requests that are held for overload, then served or refused: whatever their method and framing, the connection stays usable and in order. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import { createMetrics } from '../../../src/http/metrics.ts';
import { startApp } from '../../support/app.ts';
import { readAnswer, summaryOf } from '../../support/raw.ts';

/** `held` and `bodies`: those limits. */
const overload = { held: 0, bodies: 2000 };
const given = Object.getOwnPropertyDescriptors(limits);
beforeEach(() => {
  Object.assign(overload, { held: 0, bodies: 2000 });
  Object.defineProperties(limits, { held: { get: () => overload.held }, bodies: { get: () => overload.bodies } });
  return () => Object.defineProperties(limits, given);
});

const origin = 'https://app.example.com';
const refused = '503 service_unavailable';

/** A connection. `ask` sends bytes and resolves to the next responses, as many as `answers`. */
async function open(port: number) {
  const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  let bytes: Buffer = Buffer.alloc(0);
  let closed = false;
  socket.on('data', (part: Buffer) => {
    bytes = Buffer.concat([bytes, part]);
  });
  socket.on('close', () => {
    closed = true;
  });
  async function ask(parts: string[], { answers = 1, toHead = false } = {}) {
    for (const part of parts) {
      socket.write(part);
      if (parts.length > 1) await sleep(20);
    }
    const found: string[] = [];
    while (found.length < answers) {
      const next = readAnswer(bytes, toHead);
      if (next) {
        found.push(next.answer.text === '' ? String(next.answer.status) : summaryOf(next.answer));
        bytes = next.rest;
      } else if (closed) found.push('closed');
      else await sleep(5);
    }
    return found;
  }
  return { ask, socket, unread: () => bytes, isClosed: () => closed };
}

async function start(options: Parameters<typeof startApp>[0] = {}) {
  const metrics = createMetrics('test');
  const app = await startApp({ metrics, corsOrigins: [origin], ...options });
  const fields = `Host: a\r\nAuthorization: Bearer ${app.key}\r\n`;
  const limited = async () => {
    const { values = [] } =
      (await metrics.registry.getSingleMetric('animal_store_limited_requests_total')?.get()) ?? {};
    return values.find(({ labels }) => labels.limit === 'event_loop')?.value;
  };
  let release: () => void = () => undefined;
  /** Whether turns have no time for requests. */
  const setBusy = (busy: boolean) => {
    release();
    if (busy) release = app.app.pause();
  };
  return {
    ...app,
    fields,
    limited,
    setBusy,
    get: (more = '') => `GET /v1/pets?limit=1 HTTP/1.1\r\n${fields}${more}\r\n`,
  };
}

const body = '{"name":"Biscuit","categoryId":7}';
const length = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
const chunked = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n';
const chunks = `a\r\n${body.slice(0, 10)}\r\n${(body.length - 10).toString(16)}\r\n${body.slice(10)}\r\n0\r\n\r\n`;
/** A body that looks like a request. */
const decoy = 'GET /v1/pets/1 HTTP/1.1\r\nHost: a\r\n\r\n';
const decoyLength = `Content-Type: application/json\r\nContent-Length: ${decoy.length}\r\n`;

const requests: [string, (fields: string) => string[], object?][] = [
  ['GET', (fields) => [`GET /v1/pets HTTP/1.1\r\n${fields}\r\n`]],
  ['GET in two packets', (fields) => ['GET /v1/pets HTTP/1.1\r\n', `${fields}\r\n`]],
  ['GET whose headers contain a request', (fields) => ['GET / HTTP/1.1\r\nX: ', `GET / HTTP/1.1\r\n${fields}\r\n`]],
  ['GET with a body', (fields) => [`GET /v1/pets HTTP/1.1\r\n${fields}${length}\r\n${body}`]],
  ['HEAD', (fields) => [`HEAD /v1/pets HTTP/1.1\r\n${fields}\r\n`], { toHead: true }],
  ['OPTIONS', (fields) => [`OPTIONS /v1/pets HTTP/1.1\r\n${fields}\r\n`]],
  ['POST with its body', (fields) => [`POST /v1/pets HTTP/1.1\r\n${fields}${length}\r\n${body}`]],
  ['POST whose body comes later', (fields) => [`POST /v1/pets HTTP/1.1\r\n${fields}${length}\r\n`, body]],
  [
    'POST whose body is cut',
    (fields) => [`POST /v1/pets HTTP/1.1\r\n${fields}${length}\r\n${body.slice(0, 5)}`, body.slice(5)],
  ],
  ['POST whose body is a request', (fields) => [`POST /v1/pets HTTP/1.1\r\n${fields}${decoyLength}\r\n`, decoy]],
  ['POST in chunks', (fields) => [`POST /v1/pets HTTP/1.1\r\n${fields}${chunked}\r\n${chunks}`]],
  ['POST whose chunks come later', (fields) => [`POST /v1/pets HTTP/1.1\r\n${fields}${chunked}\r\n`, chunks]],
  ['POST without a length', (fields) => [`POST /v1/pets HTTP/1.1\r\n${fields}\r\n`]],
  ['two pipelined GETs', (fields) => [`GET /v1/pets HTTP/1.1\r\n${fields}\r\n`.repeat(2)], { answers: 2 }],
  [
    'GET behind a POST',
    (fields) => [`POST /v1/pets HTTP/1.1\r\n${fields}${length}\r\n${body}GET / HTTP/1.1\r\n${fields}\r\n`],
    { answers: 2 },
  ],
  ['unknown method', (fields) => [`PROPFIND /v1/pets HTTP/1.1\r\n${fields}\r\n`]],
];

test('refused first and later on a connection, which then serves the next request, whatever the method and the framing', async () => {
  const { port, fields, get, store, setBusy } = await start();
  for (const [name, parts, more] of requests)
    for (const before of [0, 2]) {
      const { ask, unread } = await open(port);
      setBusy(true);
      for (let n = 0; n < before; n++) expect(await ask([get()]), name).toEqual([refused]);
      const answers = await ask(parts(fields), more);
      expect(answers, name).toEqual(answers.map(() => (name === 'HEAD' ? '503' : refused)));
      expect(await ask([get()]), name).toEqual([refused]);
      setBusy(false);
      expect(await ask([get()]), name).toEqual(['200']);
      expect(unread(), name).toHaveLength(0);
    }
  expect((await store.pets.list({ limit: 1, after: 0n })).pets).toEqual([]);
});

test('a refusal is counted to the key, if it was valid lately, and its log line has the id', async () => {
  const { app, port, get, store, log, setBusy } = await start();
  const { ask } = await open(port);
  expect(await ask([get()])).toEqual(['200']);
  setBusy(true);
  expect(await ask([get()])).toEqual([refused]);
  expect(log()).toMatch(/"status":503,.*"key":1,"code":"service_unavailable"/);
  await app.close();
  const lastError = { code: 'service_unavailable' };
  expect(await store.accounts.listUsage(1, 1)).toMatchObject([{ succeeded: 1, serverErrors: 1, lastError }]);
});

test.for<[string, (fields: string) => string[]]>([
  ['Connection: close', (fields) => [`GET /v1/pets HTTP/1.1\r\n${fields}Connection: close\r\n\r\n`]],
  ['HTTP/1.0', (fields) => [`GET /v1/pets HTTP/1.0\r\n${fields}\r\n`]],
  // The client may still send the body, or not.
  ['Expect: 100-continue', (fields) => [`POST /v1/pets HTTP/1.1\r\n${fields}${length}Expect: 100-continue\r\n\r\n`]],
])('%s: the connection closes after a refusal', async ([, parts]) => {
  const { port, fields, get, setBusy } = await start();
  for (const before of [0, 2]) {
    const { ask } = await open(port);
    setBusy(true);
    for (let n = 0; n < before; n++) expect(await ask([get()])).toEqual([refused]);
    expect(await ask(parts(fields), { answers: 2 })).toEqual([refused, 'closed']);
  }
});

test('every refusal has the same bytes, but for its id and date, a log line, and a count', async () => {
  const { port, get, log, limited, setBusy } = await start();
  const { socket, unread } = await open(port);
  setBusy(true);
  const traceparent = 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n';
  const answers = [];
  for (let n = 0; n < 5; n++) {
    const seen = unread().length;
    socket.write(get(`Origin: ${origin}\r\n${traceparent}`));
    while (!readAnswer(unread().subarray(seen))) await sleep(5);
    answers.push(unread().subarray(seen).toString('latin1'));
  }
  const plain = (text: string) => text.replace(/(x-request-id|Date): [^\r]+/g, '$1');
  expect(new Set(answers.map(plain)).size).toBe(1);
  const { headers } = readAnswer(Buffer.from(answers[4] as string))?.answer ?? {};
  expect(headers).toMatchObject({ 'retry-after': '1', vary: 'Origin', 'access-control-allow-origin': origin });
  const ids = answers.map((text) => /x-request-id: ([^\r]+)/.exec(text)?.[1]);
  const lines = log()
    .split('\n')
    .filter((line) => line.includes('"status":503'));
  expect(lines.map((line) => JSON.parse(line))).toMatchObject(
    ids.map((reqId) => ({
      reqId,
      method: 'GET',
      status: 503,
      address: '127.0.0.1',
      code: 'service_unavailable',
      traceId: '0af7651916cd43dd8448eb211c80319c',
      msg: 'request',
    })),
  );
  expect(await limited()).toBe(5);
});

test.for<[string, string[] | undefined, string, string]>([
  ['behind a proxy', ['127.0.0.1'], '192.0.2.7', '192.0.2.7'],
  [
    'behind two proxies, with a port',
    ['127.0.0.1', '10.0.0.0/8'],
    '198.51.100.1, [2001:db8::7]:80, 10.1.2.3',
    '2001:db8::7',
  ],
  ['of a proxy that passes on no address', ['127.0.0.1'], 'unknown', '127.0.0.1'],
  ['without a proxy, whatever the client claims', undefined, '192.0.2.7', '127.0.0.1'],
])(
  'a refused request %s is logged with the same address as a served one',
  async ([, trustProxy, forwarded, address]) => {
    const { port, get, log, setBusy } = await start({ trustProxy });
    const { ask } = await open(port);
    const text = get(`X-Forwarded-For: ${forwarded}\r\n`);
    expect(await ask([text])).toEqual(['200']);
    setBusy(true);
    expect(await ask([text])).toEqual([refused]);
    const lines = log()
      .split('\n')
      .filter((line) => line.includes('"msg":"request"'));
    expect(lines.map((line) => JSON.parse(line).address)).toEqual([address, address]);
  },
);

test('a held request is served when a turn has time, and sees every write that was acknowledged before', async () => {
  const { port, key, add, call, setBusy } = await start({ corsOrigins: undefined });
  const fields = `Host: a\r\nAuthorization: Bearer ${key}\r\n`;
  overload.held = 60_000;
  const { ask } = await open(port);
  const last = () => ask([`GET /v1/pets?limit=100 HTTP/1.1\r\n${fields}\r\n`]);
  for (let count = 1; count <= 20; count++) {
    setBusy(true);
    const held = last();
    await sleep(10);
    setBusy(false);
    // Read in the poll phase after the held one was served.
    const others = Promise.all([call('GET', '/v1/pets'), call('GET', '/v1/pets')]);
    expect(await held).toEqual(['200']);
    await others;
    await add({ name: `pet ${count}`, categoryId: 1 });
    expect((await call('GET', '/v1/pets?limit=100')).json).toHaveLength(count);
  }
});

test('held requests of clients that have left are not served, and each has its log line', async () => {
  const { port, fields, log, store, setBusy } = await start();
  overload.held = 60_000;
  setBusy(true);
  const clients = await Promise.all(Array.from({ length: 5 }, () => open(port)));
  for (const { socket } of clients) socket.write(`POST /v1/pets HTTP/1.1\r\n${fields}${length}\r\n${body}`);
  await sleep(100);
  for (const { socket } of clients) socket.resetAndDestroy();
  await sleep(100);
  setBusy(false);
  await vi.waitFor(() =>
    expect(
      log()
        .split('\n')
        .filter((line) => line.includes('"status":499')),
    ).toHaveLength(5),
  );
  expect((await store.pets.list({ limit: 1, after: 0n })).pets).toEqual([]);
});

test('held requests of clients that have left are not refused either, but logged', async () => {
  const { port, get, log, limited, setBusy } = await start();
  overload.held = 200;
  setBusy(true);
  const { socket } = await open(port);
  socket.write(get());
  await sleep(50);
  socket.resetAndDestroy();
  await vi.waitFor(() => expect(log()).toContain('"status":499'));
  expect(await limited()).toBe(0);
});

test('a held request whose body turns out to be broken gets one response', async () => {
  const { port, fields, add, setBusy } = await start({ corsOrigins: undefined });
  overload.held = 60_000;
  setBusy(true);
  const { ask, unread } = await open(port);
  const answers = ask([`POST /v1/pets HTTP/1.1\r\n${fields}${chunked}\r\n`, 'no chunk\r\n'], { answers: 2 });
  expect(await answers).toEqual(['400 bad_request', 'closed']);
  setBusy(false);
  // Served in a later turn than the held one.
  expect((await add({ name: 'Biscuit', categoryId: 7 })).json.id).toBe(1);
  expect(unread()).toHaveLength(0);
});

test.for<[string, string, string, number]>([
  ['of unknown length', chunked, chunks, 4],
  ['of 64 KiB or more, however little has arrived', 'Content-Length: 900000\r\n', '{', 4],
  ['of 33 bytes', length, body, 0],
])('requests with bodies %s are held as long as these may take 128 KiB in all', async ([, header, sent, refusals]) => {
  const { port, fields, get, setBusy } = await start();
  Object.assign(overload, { held: 60_000, bodies: 4 });
  setBusy(true);
  const post = `POST /v1/pets HTTP/1.1\r\n${fields}${header}\r\n${sent}`;
  const clients = await Promise.all(Array.from({ length: 6 }, () => open(port)));
  const answers = clients.map(() => 'held');
  for (const [at, { ask }] of clients.entries()) {
    void ask([post]).then(([answer = '']) => (answers[at] = answer));
    await sleep(20);
  }
  await vi.waitFor(() => expect(answers.filter((answer) => answer === refused)).toHaveLength(refusals));
  const { ask } = await open(port);
  const without = ask([get()]);
  await sleep(50);
  expect(answers.filter((answer) => answer === 'held')).toHaveLength(clients.length - refusals);
  setBusy(false);
  expect(await without).toEqual(['200']);
  if (sent !== '{')
    await vi.waitFor(() => expect(answers.filter((answer) => answer === '201')).toHaveLength(6 - refusals));
});

test('a refusal while the process is about to stop closes the connection', async () => {
  const { port, get, setBusy } = await start({ draining: () => true });
  setBusy(true);
  const { ask } = await open(port);
  expect(await ask([get()], { answers: 2 })).toEqual([refused, 'closed']);
});
