/** Tests of the limits on requests and connections, of CORS, and of the request metrics. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { newSecret } from '../../../src/core/accounts.ts';
import { newToken } from '../../../src/core/people.ts';
import { createMetrics } from '../../../src/http/metrics.ts';
import { startPages } from '../../support/account-pages.ts';
import { startApp } from '../../support/app.ts';
import { readDocument } from '../../support/described.ts';

const tabby = { name: 'Tabby', categoryId: 1 };

async function counted(metrics: ReturnType<typeof createMetrics>, limit: string): Promise<number | undefined> {
  const found = await metrics.registry.getSingleMetric('animal_store_limited_requests_total')?.get();
  return found?.values.find(({ labels }) => labels.limit === limit)?.value;
}

describe('RATE_LIMIT', () => {
  test('returns 429 rate_limited with Retry-After beyond it, for all keys of that account alone', async () => {
    const metrics = createMetrics('test');
    const { call, newKey, store } = await startApp({ metrics, requestsPerMinute: 3 });
    for (const left of ['2', '1', '0']) {
      const { status, headers } = await call('GET', '/v1/pets');
      expect([status, headers['ratelimit-limit'], headers['ratelimit-remaining']]).toEqual([200, '3', left]);
    }
    for (const path of ['/v1/pets', '/v1/pets/1', '/v1/store/orders']) {
      const { status, json, headers } = await call('GET', path);
      expect([status, json.code]).toEqual([429, 'rate_limited']);
      expect(Number(headers['retry-after'])).toBeGreaterThan(50);
      expect(headers['ratelimit-remaining']).toBe('0');
    }
    expect((await call('POST', '/quickstart/messages', { body: { message: 'x' } })).status).toBe(429);
    expect(await counted(metrics, 'key')).toBe(4);
    const second = await newKey();
    expect((await call('GET', '/v1/pets', { key: second.key })).status).toBe(429);
    await store.accounts.addAccount('others');
    const other = await newKey({ account: 'others' });
    expect((await call('GET', '/v1/pets', { key: other.key })).status).toBe(200);
  });
});

describe('the limit of rejected keys', () => {
  test('returns 429 instead of 401 to an address that sends rejected keys, but never to a valid key or to none', async () => {
    const metrics = createMetrics('test');
    const { call, newKey } = await startApp({ metrics, bounds: { rejectedKeys: 2 } });
    const junk = newSecret(false).key;
    expect((await call('GET', '/v1/pets', { key: junk })).json.code).toBe('invalid_api_key');
    expect((await call('GET', '/v1/pets', { key: 'junk' })).json.code).toBe('invalid_api_key');
    const refused = await call('GET', '/v1/pets', { key: junk });
    expect([refused.status, refused.json.code]).toEqual([429, 'rate_limited']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(50);
    expect(await counted(metrics, 'refusals')).toBe(1);
    expect((await call('GET', '/v1/pets', { key: null })).status).toBe(401);
    expect((await call('GET', '/v1/pets', { key: (await newKey()).key })).status).toBe(200);
  });

  test.each([
    [undefined, [401, 429]],
    [['127.0.0.1'], [401, 401]],
  ])('reads the client address from X-Forwarded-For only behind a trusted proxy: %s', async (trustProxy, statuses) => {
    const { call } = await startApp({ trustProxy, bounds: { rejectedKeys: 1 } });
    const seen: number[] = [];
    for (const address of ['192.0.2.1', '192.0.2.2']) {
      seen.push((await call('GET', '/v1/pets', { key: 'junk', headers: { 'x-forwarded-for': address } })).status);
    }
    expect(seen).toEqual(statuses);
  });

  test.for([
    ['an address to which the proxy appends a port', ['192.0.2.1:5001', '192.0.2.1:5002'], '192.0.2.2:5001'],
    ['the IPv6 addresses of one /64', ['[2001:db8:1:2::1]:5001', '2001:db8:1:2::2'], '2001:db8:1:3::1'],
    ['text that is no address, which counts for the proxy', ['unknown', 'hidden'], '192.0.2.2'],
  ] as const)('counts %s as one client', async ([_what, addresses, other]) => {
    const { call } = await startApp({ trustProxy: ['127.0.0.1'], bounds: { rejectedKeys: 1 } });
    const seen: number[] = [];
    for (const address of [...addresses, other]) {
      seen.push((await call('GET', '/v1/pets', { key: 'junk', headers: { 'x-forwarded-for': address } })).status);
    }
    expect(seen).toEqual([401, 429, 401]);
  });
});

describe('requests that the store processes', () => {
  test('beyond the bound get 503 with Retry-After, and are served again when one has ended', async () => {
    const metrics = createMetrics('test');
    const { call, add, store } = await startApp({ metrics, bounds: { work: 4 } });
    const { add: write } = store.pets;
    const gate = Promise.withResolvers<void>();
    store.pets.add = (...input) => gate.promise.then(() => write(...input));
    const busy = [add(tabby), add(tabby)];
    await sleep(100);
    const { status, json, headers } = await add(tabby);
    expect([status, json.code, headers['retry-after']]).toEqual([503, 'service_unavailable', '1']);
    expect(await counted(metrics, 'in_flight')).toBe(1);
    gate.resolve();
    expect((await Promise.all(busy)).map((answer) => answer.status)).toEqual([201, 201]);
    expect((await add(tabby)).status).toBe(201);
    expect((await call('GET', '/v1/pets')).json).toHaveLength(3);
  });

  test('of one account, with any number of keys, leave a part to the others', async () => {
    const { call, newKey, store } = await startApp({ bounds: { work: 12 } });
    const { add: write } = store.pets;
    const gate = Promise.withResolvers<void>();
    store.pets.add = (...input) => gate.promise.then(() => write(...input));
    let refused = 0;
    const send = async (key: string, count: number) => {
      const before = refused;
      const sent = Array.from({ length: count }, async () => {
        const { status } = await call('POST', '/v1/pets', { key, body: tabby });
        if (status === 503) refused += 1;
        return status;
      });
      return { sent, refused: () => refused - before };
    };
    const [one, two] = [await newKey(), await newKey()];
    const greedy = [await send(one.key, 5), await send(two.key, 5)];
    await expect.poll(() => refused).toBe(4);
    await store.accounts.addAccount('others');
    const other = await send((await newKey({ account: 'others' })).key, 5);
    await expect.poll(other.refused).toBe(2);
    gate.resolve();
    const statuses = await Promise.all([...greedy, other].flatMap(({ sent }) => sent));
    expect(statuses.filter((status) => status === 201)).toHaveLength(9);
  });

  test('count the addresses of one /64 as one client of the account pages', async () => {
    const { open, store } = await startPages({ trustProxy: ['127.0.0.1'], bounds: { work: 8 } });
    const gate = Promise.withResolvers<void>();
    const { findLink } = store.people;
    store.people.findLink = (...input) => gate.promise.then(() => findLink(...input));
    const link = `/account/links/${newToken().token}`;
    const ask = (address: string) => open({ 'x-forwarded-for': address }).get(link);
    const greedy = Array.from({ length: 4 }, (_, at) => ask(`2001:db8:1:2::${at}`));
    await sleep(200);
    expect((await ask('2001:db8:1:2::ffff')).status).toBe(503);
    const others = [ask('2001:db8:1:3::1'), ask('[2001:db8:1:3::2]:5001')];
    await sleep(200);
    expect((await ask('2001:db8:1:3::3')).status).toBe(503);
    gate.resolve();
    const statuses = (await Promise.all([...greedy, ...others])).map(({ status }) => status);
    expect(statuses).toEqual(Array(6).fill(404));
  });

  test('of the accounts that one network creates count together, whatever their age', async () => {
    const { newKey, call, store, setTime } = await startApp({ bounds: { work: 4 } });
    const network = newToken().hash;
    const start = Date.now();
    setTime(new Date(start));
    for (const name of ['a1', 'a2', 'a3']) await store.people.signUp(name, 'hash', undefined, network);
    const keys = await Promise.all(['a1', 'a2', 'a3'].map((account) => newKey({ account })));
    const { add: write } = store.pets;
    for (const age of [0, 365 * 24 * 60 * 60 * 1000]) {
      setTime(new Date(start + age));
      const gate = Promise.withResolvers<void>();
      store.pets.add = (...input) => gate.promise.then(() => write(...input));
      const sent = keys.map(({ key }) => call('POST', '/v1/pets', { key, body: tabby }));
      await sleep(150);
      gate.resolve();
      expect((await Promise.all(sent)).map(({ status }) => status).sort()).toEqual([201, 201, 503]);
    }
  });
});

describe('MAX_CONNECTIONS', () => {
  const request = 'GET /openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';

  /** Opens a connection from a local address and keeps it open. */
  async function hold(port: number, localAddress = '127.0.0.1'): Promise<Socket> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    onTestFinished(() => void socket.destroy());
    await once(socket, 'connect');
    return socket;
  }

  async function ask(port: number, localAddress: string, sent = request): Promise<string> {
    const socket = await hold(port, localAddress);
    socket.write(sent);
    return text(socket);
  }

  const isOpen = (socket: Socket) => !socket.readableEnded && !socket.destroyed;

  test('beyond it the oldest idle connection of whoever has most closes; its account counts once a key was sent', async () => {
    const { port, key } = await startApp({ maxConnections: 4 });
    const get = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`;
    const keyed = await Promise.all(['127.0.1.1', '127.0.1.2', '127.0.1.3'].map((address) => hold(port, address)));
    for (const socket of keyed) {
      socket.write(`${get}\r\n`);
      expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /);
      socket.resume();
    }
    const stranger = (await hold(port, '127.0.2.1')).resume();
    expect(await ask(port, '127.0.2.2')).toMatch(/^HTTP\/1\.1 200 /);
    await expect.poll(() => [...keyed, stranger].map(isOpen)).toEqual([false, true, true, true]);
    const own = await Promise.all([1, 2, 3].map(() => hold(port, '127.0.2.2')));
    for (const socket of own) socket.resume();
    // Two of each at last: whoever comes with more than the others closes its own.
    await expect.poll(() => [...keyed, stranger, ...own].filter(isOpen).length).toBe(4);
    expect(isOpen(stranger)).toBe(true);
  });

  test('returns 503 beyond it, without reading the request, if no connection is idle', async () => {
    const metrics = createMetrics('test');
    const { port, key, store } = await startApp({ metrics, maxConnections: 4 });
    const body = JSON.stringify(tabby);
    const headers = `Host: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
    const post = `POST /v1/pets HTTP/1.1\r\n${headers}\r\n`;
    const held = await Promise.all(Array.from({ length: 4 }, () => hold(port)));
    for (const socket of held) socket.write(post);
    await sleep(50);
    for (const address of ['127.0.0.1', '127.0.0.2']) {
      const refused = await ask(port, address, post + body);
      expect(refused).toMatch(/^HTTP\/1\.1 503 .*\r\nretry-after: 1\r\n.*"code":"service_unavailable"/s);
      expect(refused.match(/HTTP\/1\.1/g)).toHaveLength(1);
    }
    expect(await counted(metrics, 'connections')).toBe(2);
    held[0]?.destroy();
    await sleep(50);
    expect(await ask(port, '127.0.0.1')).toMatch(/^HTTP\/1\.1 200 /);
    expect(await store.pets.list({ limit: 1, after: 0n })).toMatchObject({ pets: [] });
  });

  test.for([['127.0.0.1'], ['127.0.0.0/8'], ['::1', '127.0.0.1']])(
    'does not count connections from the trusted proxies %s',
    async (...[trustProxy]) => {
      const { port } = await startApp({ trustProxy, maxConnections: 1 });
      await Promise.all(Array.from({ length: 3 }, () => hold(port)));
      expect(await ask(port, '127.0.0.1')).toMatch(/^HTTP\/1\.1 200 /);
    },
  );
});

describe('CORS_ORIGINS', () => {
  const origin = 'https://app.example.com';
  const asPreflight = {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization',
  };
  const startWithOrigins = async () => {
    const { url, key } = await startApp({ corsOrigins: [origin, 'https://b.example.com'] });
    return async (method: string, path: string, headers: Record<string, string>, withKey = true) => {
      const authorization = withKey ? { authorization: `Bearer ${key}` } : {};
      const answer = await fetch(url + path, { method, headers: { ...headers, ...authorization } });
      return { status: answer.status, headers: Object.fromEntries(answer.headers), text: await answer.text() };
    };
  };
  /** Headers that a page may read anyway, or that only its browser uses. */
  const notExposed = ['cache-control', 'content-security-policy', 'vary', 'x-content-type-options'];
  const documented: string[] = Object.keys(readDocument('openapi.yaml').components.headers);
  const exposed = documented.filter((name) => !notExposed.includes(name.toLowerCase())).sort();

  test('answers a preflight of a listed origin, without a key, with every method and header that a page may send', async () => {
    const ask = await startWithOrigins();
    const preflight = await ask('OPTIONS', '/v1/pets', asPreflight, false);
    expect(preflight.headers).not.toHaveProperty('content-length');
    expect(preflight).toMatchObject({
      status: 204,
      headers: {
        'access-control-allow-origin': origin,
        'access-control-allow-methods': 'GET, HEAD, POST',
        'access-control-allow-headers': 'Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match',
        'access-control-max-age': '86400',
        vary: 'Origin',
      },
    });
  });

  test('exposes every header of a success and of an error to a listed origin', async () => {
    const ask = await startWithOrigins();
    for (const [withKey, status] of [
      [true, 200],
      [false, 401],
    ] as const) {
      const { headers, ...answer } = await ask('GET', '/v1/pets', { origin }, withKey);
      expect(answer.status).toBe(status);
      expect(headers['access-control-allow-origin']).toBe(origin);
      expect(headers['access-control-expose-headers']?.split(', ').sort()).toEqual(exposed);
      expect(headers.vary?.split(', ')).toContain('Origin');
    }
  });

  test('allows no other origin', async () => {
    const ask = await startWithOrigins();
    for (const headers of [{ origin: 'https://evil.example.net' }, { origin: 'null' }]) {
      const preflight = await ask('OPTIONS', '/v1/pets', { ...asPreflight, ...headers });
      expect(preflight.headers['access-control-allow-origin']).toBeUndefined();
      expect((await ask('GET', '/v1/pets', headers)).headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  test('handles an OPTIONS that is not a preflight as usual', async () => {
    const ask = await startWithOrigins();
    const { origin: _, ...withoutOrigin } = asPreflight;
    for (const headers of [{}, { origin }, withoutOrigin]) {
      expect(await ask('OPTIONS', '/v1/pets', headers)).toMatchObject({
        status: 204,
        headers: { allow: 'GET, HEAD, POST, OPTIONS' },
      });
      expect((await ask('OPTIONS', '/v1/pets', headers, false)).status).toBe(401);
      const unknown = await ask('OPTIONS', '/nowhere', headers);
      expect([unknown.status, JSON.parse(unknown.text)]).toEqual([
        404,
        { code: 'route_not_found', message: expect.stringContaining('There is nothing at this path.'), status: 404 },
      ]);
      expect(unknown.headers['content-type']).toBe('application/json');
    }
  });

  test('handles a preflight as any other OPTIONS, which needs a key, if it is unset', async () => {
    const { call } = await startApp();
    const answer = await call('OPTIONS', '/v1/pets', { key: null, headers: asPreflight });
    expect(answer.status).toBe(401);
    expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});
