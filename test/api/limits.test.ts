/** Tests of the limits on requests and connections. */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { newSecret } from '../../src/core/accounts.ts';
import { codeOf } from '../../src/core/errors.ts';
import { dayMs } from '../../src/core/limits.ts';
import { newToken } from '../../src/core/people.ts';
import type { Metrics } from '../../src/http/metrics.ts';
import { startApp, type TestApp, valuesOf } from '../support/app.ts';
import { openSocket, startServer, tabby } from '../support/process.ts';
import { rawGet, rawPost } from '../support/raw.ts';
import { addAccount } from '../support/store-file.ts';

const counted = async (metrics: Metrics, limit: string) => (await valuesOf(metrics, 'limited_requests_total'))[limit];

test('RATE_LIMIT returns 429 rate_limited with Retry-After beyond it, for all keys of that account alone', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const { get, newKey, store, metrics } = await startApp({ requestsPerMinute: 1 });
  expect((await get('/v1/pets')).status).toBe(200);
  const { json, headers } = await get('/v1/pets', { key: (await newKey()).key });
  expect(json.code).toBe('rate_limited');
  expect(Number(headers['retry-after'])).toBeGreaterThan(50);
  expect(await counted(metrics, 'key')).toBe(1);
  const other = await addAccount(store, 'others');
  expect((await get('/v1/pets', { key: other })).status).toBe(200);
  vi.advanceTimersByTime(60_000);
  expect((await get('/v1/pets')).status).toBe(200);
});

test('RATE_LIMIT counts requests whatever their method, and however they are answered', async () => {
  const { call, newKey } = await startApp({ requestsPerMinute: 4 });
  const { key: other } = await newKey({ scopes: ['pets:write'] });
  const rows = [
    ['OPTIONS', '/v1/pets', 204, undefined],
    ['PUT', '/v1/pets', 405, undefined],
    ['GET', '/v1/pets', 403, other],
    ['GET', '/v1/store/orders', 501, undefined],
    ['OPTIONS', '/v1/pets', 429, undefined],
    ['PUT', '/v1/pets', 429, undefined],
  ] as const;
  for (const [index, [method, path, status, key]] of rows.entries()) {
    const answer = await call(method, path, key ? { key } : {});
    const left = answer.headers['ratelimit-remaining'];
    expect([answer.status, left], `${method} ${path}`).toEqual([status, String(Math.max(0, 3 - index))]);
  }
});

describe('the limit of rejected keys', () => {
  test('returns 429 instead of 401 for too many rejected keys, but never to a valid key or to none', async () => {
    const { get, newKey, metrics } = await startApp({ limits: { rejectedKeys: 2 } });
    const junk = newSecret(false).key;
    for (const key of [junk, 'junk'])
      expect((await get('/v1/pets', { key })).json).toMatchObject({ status: 401, code: 'invalid_api_key' });
    const refused = await get('/v1/pets', { key: junk });
    expect([refused.status, refused.json.code]).toEqual([429, 'rate_limited']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(50);
    expect(await counted(metrics, 'refusals')).toBe(1);
    expect((await get('/v1/pets', { key: null })).status).toBe(401);
    expect((await get('/v1/pets', { key: (await newKey()).key })).status).toBe(200);
  });

  test.for<[what: string, trustProxy: string[] | undefined, addresses: string[], statuses: number[]]>([
    ['whatever they claim to be', undefined, ['192.0.2.1', '192.0.2.2'], [401, 429]],
    ['behind a proxy', ['127.0.0.1'], ['192.0.2.1', '192.0.2.2'], [401, 401]],
    ['of one /64', ['127.0.0.1'], ['[2001:db8:1:2::1]:5001', '2001:db8:1:2::2', '2001:db8:1:3::1'], [401, 429, 401]],
  ])('counts the addresses of clients %s', async ([, trustProxy, addresses, statuses]) => {
    const { get } = await startApp({ trustProxy, limits: { rejectedKeys: 1 } });
    const seen: number[] = [];
    for (const address of addresses)
      seen.push((await get('/v1/pets', { key: 'junk', headers: { 'x-forwarded-for': address } })).status);
    expect(seen).toEqual(statuses);
  });
});

/** Holds what adds pets until the returned function is called. */
function holdWrites({ store: { pets } }: TestApp): () => void {
  const { add } = pets;
  const gate = Promise.withResolvers<void>();
  pets.add = (...input) => gate.promise.then(() => add(...input));
  return gate.resolve;
}

describe('requests in flight', () => {
  /** Sends `count` POSTs with each key. `statuses` gets those that are answered. */
  function send({ call }: TestApp, keys: string[], count: number) {
    const statuses: number[] = [];
    const sent = keys.flatMap((key) =>
      Array.from(Array(count), async () => {
        const { status, json, headers } = await call('POST', '/v1/pets', { key, body: tabby });
        if (status !== 201) expect([json.code, headers['retry-after']]).toEqual(['service_unavailable', '1']);
        statuses.push(status);
      }),
    );
    return { sent: Promise.all(sent), statuses };
  }

  test('beyond the bound get 503 with Retry-After; an account, with any number of keys, leaves a part to others', async () => {
    const app = await startApp({ limits: { inFlight: 12 } });
    const release = holdWrites(app);
    const greedy = send(app, [(await app.newKey()).key, (await app.newKey()).key], 5);
    await expect.poll(() => greedy.statuses).toEqual(Array(4).fill(503));
    const other = send(app, [await addAccount(app.store, 'others')], 5);
    await expect.poll(() => other.statuses).toEqual([503, 503]);
    expect(await counted(app.metrics, 'in_flight')).toBe(6);
    release();
    await Promise.all([greedy.sent, other.sent]);
    expect((await app.add(tabby)).status).toBe(201);
  });

  test('a page that is refused for its size sends nothing of the page', async () => {
    const { get } = await startApp({ limits: { inFlight: 4 } });
    const { status, headers } = await get('/v1/pets?limit=50');
    expect([status, headers.etag, headers.link]).toEqual([503, undefined, undefined]);
  });

  test('of the accounts that one network has created count together, also a year later', async () => {
    const app = await startApp({ limits: { inFlight: 4 } });
    const network = newToken().hash;
    const names = ['a1', 'a2', 'a3'];
    for (const name of names) await app.store.people.signUp(name, 'hash', undefined, network);
    const keys = await Promise.all(names.map(async (account) => (await app.newKey({ account })).key));
    app.setTime(new Date(Date.now() + 365 * dayMs));
    const release = holdWrites(app);
    const { sent, statuses } = send(app, keys, 1);
    await expect.poll(() => statuses).toEqual([503]);
    release();
    await sent;
    expect(statuses).toEqual([503, 201, 201]);
  });
});

describe('MAX_CONNECTIONS', () => {
  /** Opens a connection from a local address and keeps it open. */
  const hold = (port: number, localAddress = '127.0.0.1') => openSocket(port, { localAddress });

  async function ask(port: number, localAddress: string): Promise<string> {
    const socket = await hold(port, localAddress);
    socket.write('GET /openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
    return text(socket);
  }

  const isOpen = (socket: Socket) => !socket.readableEnded && !socket.destroyed;

  test('beyond it a connection, also of a trusted proxy, closes without a response, and the idle ones make room for the next', async () => {
    const { port, key, store, metrics } = await startApp({ maxConnections: 4, trustProxy: ['127.0.0.0/8'] });
    const body = JSON.stringify(tabby);
    const busy = await hold(port);
    busy.write(rawPost(key, '', body.length));
    const idle = await Promise.all(['127.0.1.1', '127.0.1.2', '127.0.1.3'].map((address) => hold(port, address)));
    for (const socket of idle) {
      socket.write(rawGet(key, '/v1/pets'));
      expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /);
      socket.resume();
    }
    expect(await ask(port, '127.0.2.1').catch(codeOf)).toMatch(/^(|ECONNRESET)$/);
    expect(await counted(metrics, 'connections')).toBe(1);
    await expect.poll(() => idle.filter(isOpen)).toEqual([]);
    expect(await ask(port, '127.0.2.2')).toMatch(/^HTTP\/1\.1 200 /);
    expect(isOpen(busy)).toBe(true);
    busy.write(body);
    expect(String((await once(busy, 'data'))[0])).toMatch(/^HTTP\/1\.1 201 /);
    expect(await store.pets.list({ limit: 2, after: 0n })).toMatchObject({ pets: [expect.any(String)] });
  });

  test('that MAX_CONNECTIONS sets counts the connections of a process', async () => {
    const server = await startServer({ env: { MAX_CONNECTIONS: '3' } });
    const opened = await Promise.all(Array.from(Array(40), () => hold(server.port)));
    for (const socket of opened) socket.on('error', () => undefined).write('GET / HTTP/1.1\r\n');
    const refused = /^animal_store_limited_requests_total{limit="connections"} (\d+)$/m;
    await expect.poll(async () => Number(refused.exec(await server.metrics())?.[1])).toBeGreaterThan(10);
    const [, count] = /^animal_store_connections (\d+)$/m.exec(await server.metrics()) ?? [];
    expect(Number(count)).toBeLessThanOrEqual(3);
  });
});
