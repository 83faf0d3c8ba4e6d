/** Tests requests that are held for overload, then served or refused: whatever their method and framing, the connection stays usable and in order. */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { turnMs } from '../../../src/http/connection/turns.ts';
import { setLimits, startApp, valuesOf } from '../../support/app.ts';
import { openSocket } from '../../support/process.ts';
import { type RawAnswer, readAnswer, summaryOf } from '../../support/raw.ts';

beforeEach(() => setLimits({ held: 0 }));

const origin = 'https://app.example.com';
const refused = '503 service_unavailable';

/** A connection. `ask` sends bytes and resolves to the next responses, as many as `answers`. */
async function open(port: number, localAddress = '127.0.0.1') {
  const socket = await openSocket(port, { localAddress, noDelay: true });
  let bytes: Buffer = Buffer.alloc(0);
  let closed = false;
  let last: RawAnswer | undefined;
  socket.on('data', (part: Buffer) => {
    bytes = Buffer.concat([bytes, part]);
  });
  socket.on('close', () => {
    closed = true;
  });
  async function ask(parts: string[], answers = 1) {
    for (const part of parts) {
      socket.write(part);
      if (parts.length > 1) await sleep(20);
    }
    const found: string[] = [];
    while (found.length < answers) {
      const next = readAnswer(bytes, parts[0]?.startsWith('HEAD'));
      if (next) {
        last = next.answer;
        found.push(last.text === '' ? String(last.status) : summaryOf(last));
        bytes = next.rest;
      } else if (closed) found.push('closed');
      else await sleep(5);
    }
    return found;
  }
  return { ask, socket, unread: () => bytes, last: () => last as RawAnswer };
}

const json = 'Content-Type: application/json\r\n';
const body = '{"name":"Biscuit","categoryId":7}';
const length = `${json}Content-Length: ${body.length}\r\n`;
const chunked = `${json}Transfer-Encoding: chunked\r\n`;
const chunks = `a\r\n${body.slice(0, 10)}\r\n${(body.length - 10).toString(16)}\r\n${body.slice(10)}\r\n0\r\n\r\n`;

async function start(options: Parameters<typeof startApp>[0] = {}) {
  const app = await startApp({ corsOrigins: [origin], ...options });
  /** A request with the key. `line` without a version is one of HTTP/1.1. */
  const on = (line: string, more = '') =>
    `${line.includes(' HTTP/') ? line : `${line} HTTP/1.1`}\r\nHost: a\r\nAuthorization: Bearer ${app.key}\r\n${more}\r\n`;
  let release: () => void = () => undefined;
  const post = (more: string) => on('POST /v1/pets', more);
  const [whole, withLength, withChunks] = [on('GET /v1/pets'), post(length), post(chunked)];
  /** A body that looks like a request. */
  const decoy = 'GET /v1/pets/1 HTTP/1.1\r\nHost: a\r\n\r\n';
  /** Of all methods and framings, in parts, with the answers when they are served. */
  const requests: [parts: string[], answers: string[]][] = [
    [[whole], ['200']],
    [[whole.slice(0, 25), whole.slice(25)], ['200']],
    [[on('GET /v1/pets', length) + body], ['200']],
    [[on('HEAD /v1/pets')], ['200']],
    [[on('PROPFIND /v1/pets')], ['405 method_not_allowed [GET HEAD POST OPTIONS]']],
    [[withLength + body], ['201']],
    [[withLength + body.slice(0, 5), body.slice(5)], ['201']],
    [[post(`Content-Type: text/csv\r\nContent-Length: ${body.length}\r\n`), body], ['415 unsupported_media_type']],
    [[post(`${json}Content-Length: ${decoy.length}\r\n`), decoy], ['400 invalid_json']],
    [[withChunks + chunks], ['201']],
    [[withChunks, chunks], ['201']],
    [[whole + whole], ['200', '200']],
    [[withLength + body + on('GET /')], ['201', '404 route_not_found']],
  ];
  return {
    ...app,
    ...{ on, post, requests },
    get: (more = '') => on('GET /v1/pets?limit=1', more),
    limited: async () => (await valuesOf(app.metrics, 'limited_requests_total')).event_loop,
    lines: () => app.logged('"msg":"request"'),
    isEmpty: async () => (await app.store.pets.list({ limit: 1, after: 0n })).pets.length === 0,
    /** Whether turns have no time for requests. */
    setBusy(busy: boolean) {
      release();
      if (busy) release = app.app.pause();
    },
  };
}

test('refused first and later on a connection, which then serves the next, whatever the method and the framing', async () => {
  const { port, requests, get, isEmpty, setBusy } = await start();
  for (const [parts, { length: count }] of requests)
    for (const before of [0, 2]) {
      const { ask, unread } = await open(port);
      setBusy(true);
      for (let n = 0; n < before; n++) expect(await ask([get()])).toEqual([refused]);
      const expected = parts[0]?.startsWith('HEAD') ? '503' : refused;
      expect(await ask(parts, count), String(parts)).toEqual(Array(count).fill(expected));
      expect(await ask([get()]), String(parts)).toEqual([refused]);
      setBusy(false);
      expect(await ask([get()]), String(parts)).toEqual(['200']);
      expect(unread(), String(parts)).toHaveLength(0);
    }
  expect(await isEmpty()).toBe(true);
});

test('a connection that is read later serves the next, whatever the method and the framing', async () => {
  const { app, port, store, post, requests, setBusy } = await start();
  setLimits({ held: 60_000 });
  const other = await open(port);
  const { add } = store.pets;
  store.pets.add = (...input) => {
    // A turn without time.
    for (const end = performance.now() + turnMs; performance.now() < end; );
    return add(...input);
  };
  let pauses = 0;
  let pausesOfAdded = 0;
  let accepted: Socket | undefined;
  app.server.on('connection', (socket) => {
    accepted = socket.on('pause', () => pauses++);
  });
  for (const [parts, expected] of requests) {
    const { ask, unread } = await open(port);
    setBusy(true);
    const slow = other.ask([post(length) + body]);
    const first = ask(parts, expected.length);
    await expect.poll(() => accepted?.bytesRead).toBe(parts.join('').length);
    pauses = 0;
    setBusy(false);
    expect(await first, String(parts)).toEqual(expected);
    expect(await slow).toEqual(['201']);
    // A pipelined one was paused before; for one that waits for the writer, a turn with time may have ended meanwhile.
    if (String(expected) === '201') pausesOfAdded += pauses;
    else if (expected.length === 1) expect(pauses, String(parts)).toBeGreaterThan(0);
    expect(await ask(parts, expected.length), String(parts)).toEqual(expected);
    expect(unread(), String(parts)).toHaveLength(0);
  }
  expect(pausesOfAdded).toBeGreaterThan(0);
});

test('while the process stops, every connection is read', async () => {
  let draining = false;
  const { app, port, on, post, setBusy } = await start({ draining: () => draining });
  setLimits({ held: 60_000 });
  const { ask } = await open(port);
  let pauses = 0;
  app.server.on('connection', (socket) => socket.on('pause', () => pauses++));
  const { ask: begin, socket } = await open(port);
  socket.write(post(length));
  await ask([on('GET /v1/pets')]);
  draining = true;
  setBusy(true);
  const begun = begin([body]);
  await sleep(50);
  setBusy(false);
  expect([await begun, pauses]).toEqual([['201'], 0]);
});

test('a refusal has its headers, a count, and a log line like that of a served request: the key, its address and its trace', async () => {
  const { app, port, get, store, lines, limited, setBusy } = await start({ trustProxy: ['127.0.0.1', '10.0.0.0/8'] });
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const sent = get(
    `Origin: ${origin}\r\ntraceparent: 00-${traceId}-b7ad6b7169203331-01\r\n` +
      'X-Forwarded-For: 198.51.100.1, [2001:db8::7]:80, 10.1.2.3\r\n',
  );
  const { ask, last } = await open(port);
  expect(await ask([sent])).toEqual(['200']);
  setBusy(true);
  expect(await ask([sent])).toEqual([refused]);
  const { 'x-request-id': reqId, ...headers } = last().headers;
  expect(headers).toMatchObject({ 'retry-after': '1', vary: 'Origin', 'access-control-allow-origin': origin });
  const line = { method: 'GET', address: '2001:db8::7', traceId, key: 1 };
  const refusal = { ...line, reqId, status: 503, code: 'service_unavailable' };
  expect(lines()).toMatchObject([{ ...line, status: 200 }, refusal]);
  expect(await limited()).toBe(1);
  await app.close();
  const lastError = { code: 'service_unavailable' };
  expect(await store.accounts.listUsage(1, 1)).toMatchObject([{ succeeded: 1, serverErrors: 1, lastError }]);
});

test.for<[what: string, line: string, more: string, draining?: boolean]>([
  ['Connection: close', 'GET /v1/pets', 'Connection: close\r\n'],
  ['HTTP/1.0', 'GET /v1/pets HTTP/1.0', ''],
  // The client may still send the body, or not.
  ['Expect: 100-continue', 'POST /v1/pets', `${length}Expect: 100-continue\r\n`],
  ['the process is about to stop', 'GET /v1/pets', '', true],
])('%s: the connection closes after a refusal', async ([, line, more, draining = false]) => {
  const { port, on, get, setBusy } = await start({ draining: () => draining });
  const { ask } = await open(port);
  setBusy(true);
  // Not the first one on its connection.
  if (!draining) expect(await ask([get()])).toEqual([refused]);
  expect(await ask([on(line, more)], 2)).toEqual([refused, 'closed']);
});

test('a held request is served when a turn has time, and sees every write that was acknowledged before', async () => {
  const { port, on, add, call, setBusy } = await start({ corsOrigins: undefined });
  setLimits({ held: 60_000 });
  const { ask } = await open(port);
  for (let count = 1; count <= 20; count++) {
    setBusy(true);
    const held = ask([on('GET /v1/pets?limit=100')]);
    await sleep(10);
    setBusy(false);
    expect(await held).toEqual(['200']);
    await add({ name: `pet ${count}`, categoryId: 1 });
    expect((await call('GET', '/v1/pets?limit=100')).json).toHaveLength(count);
  }
});

test.for([60_000, 1000])(
  'held for up to %s ms, requests of clients that have left are neither served nor refused, but logged',
  async (held) => {
    const { port, get, post, log, limited, isEmpty, setBusy } = await start();
    setLimits({ held });
    setBusy(true);
    const clients = await Promise.all(Array.from(Array(5), () => open(port)));
    const sent = held === 60_000 ? post(length) + body : get();
    for (const { socket } of clients) socket.write(sent);
    await sleep(100);
    for (const { socket } of clients) socket.resetAndDestroy();
    await sleep(100);
    if (held === 60_000) setBusy(false);
    await expect.poll(() => log().match(/"status":499/g)).toHaveLength(5);
    expect([await limited(), await isEmpty()]).toEqual([0, true]);
  },
);

test('a held request whose body turns out to be broken gets one response', async () => {
  const { port, post, add, setBusy } = await start({ corsOrigins: undefined });
  setLimits({ held: 60_000 });
  setBusy(true);
  const { ask, unread } = await open(port);
  expect(await ask([post(chunked), 'no chunk\r\n'], 2)).toEqual(['400 bad_request', 'closed']);
  setBusy(false);
  // Served in a later turn than the held one.
  expect((await add({ name: 'Biscuit', categoryId: 7 })).json.id).toBe(1);
  expect(unread()).toHaveLength(0);
});

test.for<[string, string, string, number]>([
  ['of unknown length', chunked, chunks, 5],
  ['of 64 KiB or more, however little has arrived', 'Content-Length: 900000\r\n', '{', 5],
  ['of 33 bytes', length, body, 0],
])('requests with bodies %s are held up to the half of a bound', async ([, header, sent, refusals]) => {
  // A body that has arrived counts no longer.
  const { port, key, store, newKey, post, get, setBusy } = await start();
  // A turn may end after the look-up of a key, and hold the request again, for its account: with the account of the others it could be refused.
  await store.accounts.addAccount('others');
  const { key: other } = await newKey({ account: 'others' });
  setLimits({ held: 60_000, bodies: 4 });
  setBusy(true);
  const clients = await Promise.all(Array.from(Array(6), () => open(port)));
  const answers = clients.map(() => 'held');
  const countOf = (answer: string) => answers.filter((each) => each === answer).length;
  for (const [at, { ask }] of clients.entries()) {
    void ask([post(header) + sent]).then(([answer = '']) => (answers[at] = answer));
    await sleep(20);
  }
  await expect.poll(() => countOf(refused)).toBe(refusals);
  const { ask } = await open(port);
  const without = ask([get()]);
  const ofOther = (await open(port, '127.0.0.2')).ask([post(length).replace(key, other) + body]);
  await sleep(50);
  expect(countOf('held')).toBe(6 - refusals);
  setBusy(false);
  expect(await without).toEqual(['200']);
  expect(await ofOther).toEqual(['201']);
  if (sent !== '{') await expect.poll(() => countOf('201')).toBe(6 - refusals);
});

test('what follows a body waits for a turn, too', async () => {
  const { port, post, setBusy, isEmpty } = await start();
  setLimits({ held: 60_000 });
  const { ask, socket } = await open(port);
  socket.write(post(length));
  await sleep(50);
  setBusy(true);
  const answer = ask([body]);
  await sleep(50);
  expect(await isEmpty()).toBe(true);
  setBusy(false);
  expect(await answer).toEqual(['201']);
});

test('held requests whose keys are looked up are served by turns, too', async () => {
  setLimits({ held: 60_000 });
  const { app, store, newKey, call } = await startApp();
  const keys = await Promise.all(Array.from(Array(20), () => newKey()));
  const { list } = store.pets;
  let [inTurn, most] = [0, 0];
  store.pets.list = (query) => {
    if (inTurn === 0) setImmediate(() => (inTurn = 0));
    inTurn += 1;
    most = Math.max(most, inTurn);
    for (const begun = performance.now(); performance.now() < begun + 5; );
    return list(query);
  };
  const release = app.pause();
  const asked = keys.map(({ key }, index) => call('GET', `/v1/pets?limit=${index + 1}`, { key }));
  await sleep(200);
  release();
  for (const { status } of await Promise.all(asked)) expect(status).toBe(200);
  expect(most).toBeLessThan(8);
});
