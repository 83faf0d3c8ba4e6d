/** Tests of what is counted of each API key, by outcome and day. */
import { connect } from 'node:net';
import { pino } from 'pino';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { newSecret } from '../../../src/core/accounts.ts';
import { type DayOfUse, keptDays } from '../../../src/core/usage.ts';
import { createKeyUsage, type KeyUsage } from '../../../src/http/key-usage.ts';
import { startApp } from '../../support/app.ts';
import { borrowStore, textRows } from '../../support/store.ts';

const dayMs = 24 * 60 * 60 * 1000;
const noon = new Date('2027-02-03T12:00:00Z');
const nothing = { succeeded: 0, clientErrors: 0, rateLimited: 0, serverErrors: 0, deprecatedCalls: 0, lastError: null };
const later = (ms: number) => new Date(noon.getTime() + ms);
const daysAfter = (days: number) => later(days * dayMs);

afterEach(() => void vi.useRealTimers());

/** Starts the server at noon. `closed` closes it, and resolves to what was counted of its key. */
async function start(options: Parameters<typeof startApp>[0] = {}) {
  const server = await startApp(options);
  server.setTime(noon);
  const counted = () => server.store.accounts.listUsage(1, keptDays);
  const closed = async () => {
    await server.app.close();
    return counted();
  };
  return { ...server, counted, closed };
}

describe('a request with a valid key', () => {
  type Call = Awaited<ReturnType<typeof start>>['call'];
  const body = { name: 'Biscuit', categoryId: 7 };
  const list = (call: Call) => call('GET', '/v1/pets');

  test('is counted by its outcome', async () => {
    const rows: [what: string, status: number, (call: Call) => Promise<unknown>, Partial<DayOfUse>, code?: string][] = [
      ['GET', 200, list, { succeeded: 1 }],
      ['GET that the response cache answers', 200, (call) => list(call).then(() => list(call)), { succeeded: 2 }],
      ['HEAD', 200, (call) => call('HEAD', '/v1/pets'), { succeeded: 1 }],
      ['OPTIONS', 204, (call) => call('OPTIONS', '/v1/pets'), { succeeded: 1 }],
      ['POST', 201, (call) => call('POST', '/v1/pets', { body }), { succeeded: 1 }],
      [
        'POST of a message',
        202,
        (call) => call('POST', '/quickstart/messages', { body: { message: 'Hello' } }),
        { succeeded: 1 },
      ],
      [
        'GET with If-None-Match',
        304,
        async (call) =>
          call('GET', '/v1/pets', { headers: { 'if-none-match': String((await list(call)).headers.etag) } }),
        { succeeded: 2 },
      ],
      ['invalid parameter', 400, (call) => call('GET', '/v1/pets?limit=0'), { clientErrors: 1 }, 'invalid_parameter'],
      [
        'HEAD with an invalid parameter',
        400,
        (call) => call('HEAD', '/v1/pets?limit=0'),
        { clientErrors: 1 },
        'invalid_parameter',
      ],
      [
        'body without JSON',
        400,
        (call) => call('POST', '/v1/pets', { body: '{' }),
        { clientErrors: 1 },
        'invalid_json',
      ],
      ['wrong method', 405, (call) => call('DELETE', '/v1/pets'), { clientErrors: 1 }, 'method_not_allowed'],
      ['placeholder', 501, (call) => call('GET', '/v1/store/orders'), { serverErrors: 1 }, 'not_implemented'],
      [
        'deprecated operation',
        404,
        (call) => call('GET', '/v1/pets/99'),
        { clientErrors: 1, deprecatedCalls: 1 },
        'pet_not_found',
      ],
    ];
    const { call, app, newKey, store } = await start();
    const ids: number[] = [];
    for (const [what, status, ask] of rows) {
      const { key, id } = await newKey();
      ids.push(id);
      expect(await ask((method, path, more) => call(method, path, { key, ...more })), what).toMatchObject({ status });
    }
    await app.close();
    for (const [at, [what, , , counts, code]] of rows.entries()) {
      const lastError = code === undefined ? null : { code, at: noon };
      const found = await store.accounts.listUsage(ids[at] as number, keptDays);
      expect(found, what).toEqual([{ day: '2027-02-03', ...nothing, ...counts, lastError }]);
    }
  });

  test('is counted beyond the rate limit, apart from other errors', async () => {
    const { call, closed } = await start({ requestsPerMinute: 1 });
    await call('GET', '/v1/pets');
    expect((await call('GET', '/v1/pets/1')).status).toBe(429);
    const lastError = { code: 'rate_limited', at: noon };
    expect(await closed()).toEqual([{ day: '2027-02-03', ...nothing, succeeded: 1, rateLimited: 1, lastError }]);
  });

  test('is counted if its response is 5xx; the newest error is kept', async () => {
    const { call, closed, setTime } = await start({
      bounds: { work: 0 },
    });
    // The look-up of a stranger has places of its own.
    expect((await call('POST', '/v1/pets', { body })).status).toBe(503);
    setTime(later(1));
    await call('GET', '/v1/store/orders');
    const lastError = { code: 'not_implemented', at: later(1) };
    expect(await closed()).toEqual([{ day: '2027-02-03', ...nothing, serverErrors: 2, lastError }]);
  });

  test('is counted as a client error if the client is gone before the response', async () => {
    const { key, port, closed, log, store } = await start();
    vi.spyOn(store.pets, 'add').mockReturnValue(Promise.withResolvers<never>().promise);
    const socket = connect(port, '127.0.0.1');
    const sent = JSON.stringify(body);
    const fields = `Host: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${sent.length}\r\n`;
    socket.write(`POST /v1/pets HTTP/1.1\r\n${fields}\r\n${sent}`);
    await vi.waitFor(() => expect(store.pets.add).toHaveBeenCalled(), { timeout: 10_000 });
    socket.resetAndDestroy();
    await vi.waitFor(() => expect(log()).toContain('"status":499'), { timeout: 10_000 });
    expect(await closed()).toEqual([{ day: '2027-02-03', ...nothing, clientErrors: 1 }]);
  });
});

test.for<
  [why: string, status: number, path: string, key: (app: Awaited<ReturnType<typeof start>>) => Promise<string | null>]
>([
  ['no key', 401, '/v1/pets', async () => null],
  ['an unknown key', 401, '/v1/pets', async () => newSecret(false).key],
  [
    'a revoked key',
    401,
    '/v1/pets',
    async ({ key, store }) => {
      await store.accounts.revokeKey(1);
      return key;
    },
  ],
  ['an unknown path, which needs no key', 404, '/v1/cats', async ({ key }) => key],
])('a request with %s is not counted', async ([, status, path, keyOf], { expect }) => {
  const app = await start();
  expect((await app.call('GET', path, { key: await keyOf(app) })).status).toBe(status);
  expect(await app.closed()).toEqual([]);
  expect(await app.store.accounts.listKeys()).toMatchObject([{ lastUsedAt: null }]);
});

test('a day changes at 00:00 UTC: a request counts for the day of its response, not of the flush', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const { call, counted, setTime } = await start();
  const [last, first] = [new Date('2027-02-03T23:59:59.999Z'), new Date('2027-02-04T00:00:00Z')];
  setTime(last);
  await call('GET', '/v1/pets/1');
  setTime(first);
  for (let count = 0; count < 2; count++) await call('GET', '/v1/pets');
  vi.advanceTimersByTime(60_000);
  await vi.waitFor(async () => expect(await counted()).toHaveLength(2), { timeout: 10_000 });
  expect(await counted()).toEqual([
    {
      day: '2027-02-03',
      ...nothing,
      clientErrors: 1,
      deprecatedCalls: 1,
      lastError: { code: 'pet_not_found', at: last },
    },
    { day: '2027-02-04', ...nothing, succeeded: 2 },
  ]);
});

test('a flush that fails is repeated, and each day keeps its counts', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const { call, counted, closed, setTime, store, log } = await start();
  vi.spyOn(store.accounts, 'recordUses').mockRejectedValueOnce(new Error('the disk is full'));
  await call('GET', '/v1/pets/1');
  vi.advanceTimersByTime(60_000);
  await vi.waitFor(() => expect(log()).toContain('the disk is full'), { timeout: 10_000 });
  expect(await counted()).toEqual([]);
  setTime(later(1));
  await call('GET', '/v1/pets?limit=0');
  setTime(daysAfter(1));
  await call('GET', '/v1/pets');
  expect(await closed()).toEqual([
    {
      ...{ day: '2027-02-03', ...nothing, clientErrors: 2, deprecatedCalls: 1 },
      lastError: { code: 'invalid_parameter', at: later(1) },
    },
    { day: '2027-02-04', ...nothing, succeeded: 1 },
  ]);
});

describe('the store', () => {
  const use = (lastUsedAt: Date) => ({ id: 1, lastUsedAt, succeeded: 1, deprecatedCalls: 0 });

  async function makeStore() {
    const borrowed = await borrowStore();
    const { accounts } = borrowed.store;
    borrowed.setTime(noon);
    await accounts.addAccount('zoo');
    const add = () =>
      accounts.addKey({
        account: 'zoo',
        name: 'till',
        scopes: ['pets:read'],
        lifetimeMs: null,
        secret: newSecret(false),
      });
    await add();
    const rows = async () =>
      textRows(borrowed.databaseUrl, 'SELECT key_id, day FROM api_key_usage ORDER BY key_id, day');
    return { ...borrowed, accounts, add, rows };
  }

  test('adds up what several servers count; the newest error wins', async () => {
    const { accounts } = await makeStore();
    const servers = [0, 1].map(() => {
      const clock = { time: noon };
      const now = () => clock.time;
      const logger = pino({ level: 'silent' });
      return { clock, usage: createKeyUsage({ accounts, logger, now }) };
    }) as [Server, Server];
    interface Server {
      clock: { time: Date };
      usage: KeyUsage;
    }
    const [one, other] = servers;
    const request = { reqId: 'test', key: 1 };
    one.usage.count({ ...request, status: 200 });
    one.clock.time = later(2);
    one.usage.count({ ...request, status: 400, code: 'invalid_body' });
    other.clock.time = later(1);
    for (let count = 0; count < 3; count++)
      other.usage.count({ ...request, status: 503, code: 'service_unavailable', isDeprecated: true });
    await Promise.all(servers.map(({ usage }) => usage.close()));
    const lastError = { code: 'invalid_body', at: later(2) };
    expect(await accounts.listUsage(1, 1)).toEqual([
      {
        day: '2027-02-03',
        succeeded: 1,
        clientErrors: 1,
        rateLimited: 0,
        serverErrors: 3,
        deprecatedCalls: 3,
        lastError,
      },
    ]);
    expect(await accounts.listKeys()).toMatchObject([{ lastUsedAt: later(2), deprecatedCalls: 3 }]);
  });

  test('lists the last days, also for each active key of an account', async () => {
    const { accounts, add, store } = await makeStore();
    await add();
    await add();
    await accounts.recordUses(
      [-30, -29, -1, 0].flatMap((days) => [1, 3].map((id) => ({ ...use(daysAfter(days)), id }))),
    );
    const days = ['2027-01-05', '2027-02-02', '2027-02-03'].map((day) => ({ day, ...nothing, succeeded: 1 }));
    expect(await accounts.listUsage(1, 30)).toEqual(days);
    expect(await accounts.listOwnUsage(1, 30)).toEqual(
      new Map([
        [1, days],
        [3, days],
      ]),
    );
    await store.accounts.revokeKey(3);
    expect([...(await accounts.listOwnUsage(1, 30)).keys()]).toEqual([1]);
    expect(await accounts.listOwnUsage(2, 30)).toEqual(new Map());
  });

  test('keeps 90 days, and deletes older ones in bounded steps', async () => {
    const { accounts, rows } = await makeStore();
    const days = Array.from({ length: keptDays + 5 }, (_, index) => daysAfter(index - keptDays - 4));
    // It deletes two rows of the oldest day for each row that it adds.
    await accounts.recordUses(days.map(use));
    const oldest = async () => Number((await rows())[0]?.day);
    const first = await oldest();
    for (let count = 1; count <= 10; count++) {
      await accounts.recordUses([use(noon)]);
      expect(await oldest()).toBe(first + Math.min(count, 4));
    }
    expect(await rows()).toHaveLength(keptDays);
    expect(await accounts.listUsage(1, keptDays)).toHaveLength(keptDays);
  });
});
