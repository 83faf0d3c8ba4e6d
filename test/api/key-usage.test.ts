/** Tests of what is counted of each API key, by outcome and day. */
import { pino } from 'pino';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type Accounts, newSecret } from '../../src/core/accounts.ts';
import { dayMs } from '../../src/core/limits.ts';
import { type DayOfUse, type KeyUse, keptDays } from '../../src/core/usage.ts';
import { createKeyUsage } from '../../src/http/key-usage.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { borrowStore, textRows } from '../support/store.ts';
import { addAccount, addKey } from '../support/store-file.ts';

const noon = new Date('2027-02-03T12:00:00Z');
const nothing = { succeeded: 0, clientErrors: 0, rateLimited: 0, serverErrors: 0, deprecatedCalls: 0, lastError: null };
const today = { day: '2027-02-03', ...nothing };
const pet = { name: 'Biscuit', categoryId: 7 };

/** Starts the server at noon. `counted`: what was counted of its key. */
async function start(options: Parameters<typeof startApp>[0] = {}) {
  const server = await startApp(options);
  server.setTime(noon);
  const counted = (id = 1) => server.store.accounts.listUsage(id, keptDays);
  const closed = async () => {
    await server.app.close();
    return counted();
  };
  return { ...server, counted, closed };
}

/** A store at noon, with one key. */
async function openWithKey() {
  const { store, setTime, databaseUrl } = await borrowStore();
  setTime(noon);
  await addAccount(store, 'zoo');
  return { store, accounts: store.accounts, setTime, databaseUrl };
}

const after = (ms: number) => new Date(+noon + ms);
const use = (lastUsedAt: Date) => ({ id: 1, lastUsedAt, succeeded: 1, deprecatedCalls: 0 });

/** A use of a key with `count` errors, `ms` after noon. */
function failures(ms: number, count: number, id = 1): KeyUse {
  const error = { code: 'pet_not_found', at: after(ms), operation: 'GET /v1/pets/{petId}' };
  const errors = Array.from(Array(count), (_, index) => ({ ...error, requestId: `${ms}-${index}` }));
  return { id, lastUsedAt: error.at, clientErrors: count, deprecatedCalls: 0, errors };
}

/** A server's counts, which `recordUses` writes. */
function startCounting(recordUses: Accounts['recordUses']) {
  const { count, close } = createKeyUsage({ recordUses } as Accounts, pino({ level: 'silent' }), () => noon);
  const error = { method: 'GET', route: '/v1/pets', status: 400, code: 'invalid_parameter' } as const;
  return { close, fail: (key: number, reqId = 'r') => count({ ...error, key, reqId }) };
}

function stopTimers(): void {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
}

type Options = Parameters<TestApp['call']>[2];
type Row = [line: string, status: number, counts: Partial<DayOfUse>, code?: string | undefined, options?: Options];

test('each request with a valid key is counted by its outcome', async () => {
  const { call, get, app, store, newKey, counted } = await start();
  const { etag } = (await get('/v1/pets')).headers;
  const rows: Row[] = [
    ['GET /v1/pets', 200, { succeeded: 1 }],
    ['OPTIONS /v1/pets', 204, { succeeded: 1 }],
    ['GET /v1/pets', 304, { succeeded: 1 }, undefined, { headers: { 'if-none-match': String(etag) } }],
    ['HEAD /v1/pets?limit=0', 400, { clientErrors: 1 }, 'invalid_parameter'],
    ['POST /v1/pets', 400, { clientErrors: 1 }, 'invalid_json', { body: '{' }],
    ['DELETE /v1/pets', 405, { clientErrors: 1 }, 'method_not_allowed'],
    ['GET /v1/store/orders', 501, { serverErrors: 1 }, 'not_implemented'],
    ['GET /v1/pets/99', 404, { clientErrors: 1, deprecatedCalls: 1 }, 'pet_not_found'],
    ['POST /v1/pets', 201, { succeeded: 1 }, undefined, { body: pet }],
  ];
  const expected: [number, DayOfUse][] = [];
  for (const [line, status, counts, code, options] of rows) {
    const { key, id } = await newKey();
    const [method, path] = line.split(' ') as [string, string];
    expect((await call(method, path, { key, ...options })).status, line).toBe(status);
    expected.push([id, { ...today, ...counts, lastError: code ? { code, at: noon } : null } as DayOfUse]);
  }
  const { key, id } = await newKey();
  store.pets.list = () => Promise.reject(new Error('a bug'));
  expect((await get('/v1/pets', { key })).status).toBe(500);
  expected.push([id, { ...today, serverErrors: 1, lastError: { code: 'internal_error', at: noon } } as DayOfUse]);
  await app.close();
  for (const [id, day] of expected) expect(await counted(id), String(rows[id - 2] ?? 'a bug')).toEqual([day]);
});

test('beyond the rate limit, requests are counted apart', async () => {
  const { get, closed } = await start({ requestsPerMinute: 1 });
  await get('/v1/pets');
  expect((await get('/v1/pets/1')).status).toBe(429);
  const lastError = { code: 'rate_limited', at: noon };
  expect(await closed()).toEqual([{ ...today, succeeded: 1, rateLimited: 1, lastError }]);
});

test('requests without a valid key, and of a path that needs none, are not counted', async () => {
  const { get, closed, store, key } = await start();
  expect((await get('/v1/cats')).status).toBe(404);
  await store.accounts.revokeKey(1);
  for (const sent of [null, newSecret(false).key, key]) expect((await get('/v1/pets', { key: sent })).status).toBe(401);
  expect(await closed()).toEqual([]);
  expect(await store.accounts.listKeys()).toMatchObject([{ lastUsedAt: null }]);
});

test('a flush that fails is logged and repeated; a request counts for the day of its response, not of the flush', async () => {
  stopTimers();
  const { get, counted, setTime, store, log } = await start();
  const [last, first] = [new Date('2027-02-03T23:59:59.999Z'), new Date('2027-02-04T00:00:00Z')];
  vi.spyOn(store.accounts, 'recordUses').mockRejectedValueOnce(new Error('the disk is full'));
  await get('/v1/pets/1');
  vi.advanceTimersByTime(60_000);
  await expect.poll(log).toContain('the disk is full');
  expect(await counted()).toEqual([]);
  setTime(last);
  await get('/v1/pets?limit=0');
  setTime(first);
  for (let count = 0; count < 2; count++) await get('/v1/pets');
  vi.advanceTimersByTime(60_000);
  await expect.poll(() => counted()).toHaveLength(2);
  const lastError = { code: 'invalid_parameter', at: last };
  expect(await counted()).toEqual([
    { ...today, clientErrors: 2, deprecatedCalls: 1, lastError },
    { ...nothing, day: '2027-02-04', succeeded: 2 },
  ]);
});

test('the last ten errors of a key are kept, with what their operation was and which request had them', async () => {
  stopTimers();
  const { get, call, newKey, setTime, store, app } = await start();
  const { key, id } = await newKey();
  const ids: unknown[] = [];
  const failAt = async (second: number, path: string, method = 'GET') => {
    setTime(after(second * 1000));
    ids.unshift((await call(method, path, { key })).headers['x-request-id']);
  };
  const kept = async () => {
    vi.advanceTimersByTime(60_000);
    return expect.poll(async () => (await store.accounts.listErrors(id)).map(({ requestId }) => requestId));
  };
  for (let second = 0; second < 12; second++) await failAt(second, `/v1/pets/${second}`);
  await (await kept()).toEqual(ids.slice(0, 10));
  await get('/v1/pets', { key });
  await failAt(20, '/v1/pets?limit=<secret>');
  await failAt(21, '/v1/pets/not-a-number');
  await failAt(22, '/v1/pets', 'DELETE');
  // What was written before is not written again.
  const write = store.accounts.recordUses;
  vi.spyOn(store.accounts, 'recordUses').mockImplementationOnce(async (uses) => {
    await write(uses);
    throw new Error('the reply of the commit is lost');
  });
  await (await kept()).toEqual(ids.slice(0, 10));
  await failAt(23, '/v1/store/orders');
  await app.close();
  const errors = await store.accounts.listErrors(id);
  expect(errors.map(({ requestId }) => requestId)).toEqual(ids.slice(0, 10));
  expect(errors.slice(0, 5)).toMatchObject([
    { operation: 'GET /v1/store/orders', code: 'not_implemented', at: after(23_000) },
    { operation: 'DELETE /v1/pets', code: 'method_not_allowed', at: after(22_000) },
    { operation: 'GET /v1/pets/{petId}', code: 'invalid_parameter', at: after(21_000) },
    { operation: 'GET /v1/pets', code: 'invalid_parameter', at: after(20_000) },
    { operation: 'GET /v1/pets/{petId}', code: 'pet_not_found', at: after(11_000) },
  ]);
  expect(await store.accounts.listErrors(1)).toEqual([]);
});

test('between two writes, a server holds ten errors of a key, 10,000 of all, and counts the others', async () => {
  const written: KeyUse[] = [];
  let isDown = true;
  const { fail, close } = startCounting(async (uses) => {
    if (isDown) throw new Error('down');
    written.push(...uses);
  });
  for (let key = 1; key <= 3000; key++) for (let count = 0; count < 11; count++) fail(key);
  // A write that failed puts them back.
  await close();
  isDown = false;
  fail(3001);
  await close();
  const sum = (of: (use: KeyUse) => number | undefined) => written.reduce((all, use) => all + (of(use) ?? 0), 0);
  expect(sum(({ errors }) => errors?.length)).toBe(10_000);
  expect(written[0]?.errors).toHaveLength(10);
  expect(sum(({ clientErrors }) => clientErrors)).toBe(33_001);
});

test('the last use is the latest one, but none of a clock that was ahead', async () => {
  const { accounts } = await openWithKey();
  const lastUse = async (ms: number) => {
    await accounts.recordUses([use(after(ms))]);
    return Number((await accounts.listKeys())[0]?.lastUsedAt) - +noon;
  };
  // Servers may write a minute apart.
  for (const [ms, last] of [
    [60_000, 60_000],
    [0, 60_000],
    [dayMs, dayMs],
    [0, 0],
  ] as const)
    expect(await lastUse(ms)).toBe(last);
});

test('errors during a write that fails are later than those that it puts back', async () => {
  stopTimers();
  const ids: (string | undefined)[][] = [];
  const { fail, close } = startCounting(async ([use]) => {
    ids.push(use?.errors?.map(({ requestId }) => requestId) ?? []);
    if (ids.length > 1) return;
    for (let id = 10; id < 13; id++) fail(1, String(id));
    throw new Error('the disk is full');
  });
  for (let id = 0; id < 10; id++) fail(1, String(id));
  vi.advanceTimersByTime(60_000);
  await close();
  expect(ids[1]).toEqual(Array.from(Array(10), (_, index) => String(index + 3)));
});

test('a key with many errors takes none from another one', async () => {
  const { accounts } = await openWithKey();
  await addKey(accounts, 'zoo');
  await accounts.recordUses([failures(0, 2), failures(1000, 10, 2)]);
  expect(await accounts.listErrors(1)).toHaveLength(2);
});

test('the last errors are the latest ones, and those of a clock that was ahead give way first', async () => {
  const { accounts } = await openWithKey();
  const fail = async (ms: number, count: number) => {
    await accounts.recordUses([failures(ms, count)]);
    const kept = await accounts.listErrors(1);
    return kept.map((error) => Number(error.at) - +noon);
  };
  expect(await fail(dayMs, 10)).toEqual(Array(10).fill(dayMs));
  expect(await fail(0, 3)).toEqual([...Array(7).fill(dayMs), 0, 0, 0]);
  // The clocks of servers differ by less than a minute.
  expect(await fail(50_000, 6)).toEqual([dayMs, ...Array(6).fill(50_000), 0, 0, 0]);
  expect(await fail(1, 2)).toEqual([...Array(6).fill(50_000), 1, 1, 0, 0]);
});

test('a message is deleted after a day and an Idempotency-Key after three, though nothing like it arrives', async () => {
  const { store, accounts, setTime, databaseUrl } = await openWithKey();
  const add = async (name: string, at: Date) => {
    setTime(at);
    const message = { id: name, accountId: 1, message: name, status: 'queued', createdAt: at.toISOString() } as const;
    await store.messages.add(message);
    await store.pets.add({ name, categoryId: 1n, status: 'sold' }, { accountId: 1, key: name });
  };
  await add('old', noon);
  await add('new', after(1));
  setTime(after(dayMs));
  await accounts.recordUses([use(noon)]);
  expect(await textRows(databaseUrl, 'SELECT id FROM message')).toEqual([{ id: 'new' }]);
  const keys = () => textRows(databaseUrl, 'SELECT key FROM idempotency ORDER BY key');
  expect(await keys()).toEqual([{ key: 'new' }, { key: 'old' }]);
  setTime(after(3 * dayMs));
  await accounts.recordUses([use(noon)]);
  expect(await keys()).toEqual([{ key: 'new' }]);
});

test('the store keeps 90 days, and deletes older ones in bounded steps', async () => {
  const { accounts, databaseUrl } = await openWithKey();
  const days = Array.from(Array(keptDays + 5), (_, index) => after((index - keptDays - 4) * dayMs));
  // It deletes two rows of the oldest day for each row that it adds.
  await accounts.recordUses(days.map(use));
  const kept: unknown[] = [];
  for (let count = 0; count < 5; count++) {
    await accounts.recordUses([use(noon)]);
    kept.push((await textRows(databaseUrl, 'SELECT count(*) AS n FROM api_key_usage'))[0]?.n);
  }
  expect(kept).toEqual([3, 2, 1, 0, 0].map((more) => `${keptDays + more}`));
});
