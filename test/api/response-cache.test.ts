/** Tests of the response cache: what it keeps, and that no response is older than an acknowledged write. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { statuses } from '../../src/core/pets.ts';
import { represent } from '../../src/http/responses.ts';
import { createCache } from '../../src/pets/response-cache.ts';
import { metricValue, startApp } from '../support/app.ts';
import { engine, open, runSql } from '../support/store.ts';

describe('the response cache', () => {
  test('does not keep a response if the store changed while it was made', async () => {
    let now = 1;
    const cache = createCache(async (state) => state === now);
    const get = async (key: number, text: string) => {
      const read = async () => ({ state: now, represent: () => represent(text) });
      return String((await cache.get(key, read)).found.body);
    };
    await get(1, '1');
    const before = now;
    const slow = cache.get(1, async () => {
      await Promise.resolve();
      now = 2;
      await get(2, '2');
      return { state: before, represent: () => represent('old') };
    });
    expect((await slow).found.body).toBe('old');
    expect(await get(1, '3')).toBe('3');
    // 2^53 + 1 is the same number.
    for (const text of ['4', '5', '6']) expect(await get(2 ** 53, text)).toBe(text);
  });

  test('does not return a response that an older read has kept meanwhile', async () => {
    let now = 1;
    const cache = createCache(async (state) => state === now);
    const readLater = () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const state = now;
      const read = () => promise.then(() => ({ state, represent: () => represent(`state ${state}`) }));
      return { finish: resolve, response: cache.get(1, read) };
    };
    const textOf = async ({ finish, response }: ReturnType<typeof readLater>) => {
      finish();
      return (await response).found.body;
    };
    await textOf(readLater());
    const older = readLater();
    now = 2;
    const newer = readLater();
    expect([await textOf(older), await textOf(newer)]).toEqual(['state 1', 'state 2']);
  });

  test('makes the response of one state twice at most, however many read it at once', async () => {
    const cache = createCache(async () => true);
    let made = 0;
    const read = async () => ({
      state: 1,
      represent() {
        made += 1;
        return represent('x');
      },
    });
    await Promise.all(Array.from(Array(100), () => cache.get(1, read)));
    expect(made).toBe(2);
  });

  test('is bounded, and keeps responses while they are requested', async () => {
    const cache = createCache(async () => true);
    let made = 0;
    const read = async () => {
      made += 1;
      return { state: 1, represent: () => represent('x'.repeat(512 * 1024)) };
    };
    /** How many responses are made when the keys below `keys` are requested three times. */
    const madeFor = async (keys: number, from = 0) => {
      const before = made;
      for (const _time of ['first', 'second', 'third'])
        for (let key = from; key < keys; key++) await cache.get(key, read);
      return made - before;
    };
    // 8 MiB have room for most of them, which the second request keeps.
    const madeFirst = await madeFor(20);
    expect(madeFirst).toBeGreaterThan(20 + 20 + 20 - 16);
    expect(madeFirst).toBeLessThan(20 + 20 + 10);
    cache.sweep();
    expect(await madeFor(10)).toBe(0);
    cache.sweep();
    // Responses that nobody requested make room when others need it.
    expect(await madeFor(20, 19)).toBe(3);
    cache.sweep();
    expect(await madeFor(20, 19)).toBe(2);
  });
});

test('requests for one large page at once share its bytes', async () => {
  // On PostgreSQL, an account may read 67 pages of this limit at once. Each response is also checked here, in the same event loop.
  const { add, call } = await startApp({});
  await Promise.all(Array.from(Array(100), () => add({ name: '🐈'.repeat(1000), categoryId: 1 })));
  const asked = Array.from(Array(60), (_, index) => call(index % 2 ? 'GET' : 'HEAD', '/v1/pets?limit=100'));
  for (const { status } of await Promise.all(asked)) expect(status).toBe(200);
});

test('no reader sees a page older than an acknowledged write of any process', async () => {
  const { add, get, databaseUrl } = await startApp();
  const other = await open(databaseUrl);
  for (let count = 1; count <= 40; count++) {
    expect((await get(`/v1/pets/${count}`)).status).toBe(404);
    await get('/v1/pets?limit=100');
    if (count % 2) await add({ name: `pet ${count}`, categoryId: 1 });
    else await other.pets.add({ name: `pet ${count}`, categoryId: 1n, status: 'sold' });
    expect((await get('/v1/pets?limit=100')).json).toHaveLength(count);
    expect((await get(`/v1/pets/${count}`)).status).toBe(200);
  }
});

test('each query gets its own page, however often and however many are read at once', async () => {
  const { add, get } = await startApp();
  const pets = Array.from(Array(40), (_, index) => ({ id: index + 1, status: statuses[index % 3] }));
  for (const { id, status } of pets) await add({ name: `pet ${id}`, categoryId: 1, status });
  const queries = [0, 1, 25].flatMap((after) =>
    [undefined, ...statuses].flatMap((status) => [1, 2, 19, 20, 99, 100].map((limit) => ({ after, status, limit }))),
  );
  const check = async ({ after, status, limit }: (typeof queries)[0]) => {
    const cursor = after ? `&cursor=${Buffer.from(`after:${after}`).toString('base64url')}` : '';
    const query = `limit=${limit}${cursor}${status ? `&status=${status}` : ''}`;
    const wanted = pets.filter((pet) => pet.id > after && (!status || pet.status === status)).slice(0, limit);
    expect((await get(`/v1/pets?${query}`)).json, query).toMatchObject(wanted);
  };
  // At once: on PostgreSQL they share a statement.
  for (let times = 0; times < 3; times++) await Promise.all(queries.map(check));
});

const replaced = (id: number) => `INTO pet (id, name, category_id, status) VALUES (${id}, 'replaced', 1, 'sold')`;

/** A statement that puts another pet in the place of the one with this id. */
const replace = (id: number) =>
  engine === 'SQLite'
    ? `INSERT OR REPLACE ${replaced(id)}`
    : `INSERT ${replaced(id)} ON CONFLICT (id) DO UPDATE SET name = excluded.name`;

type Row = [what: string, change: string, names: string[], status: number, before?: string];

/** As a dump of the data alone, when it is restored: the revision is the same. */
const truncation: Row = [
  'TRUNCATE, which keeps the revision',
  'CREATE TEMP TABLE kept AS TABLE pet_revision; TRUNCATE pet; UPDATE pet_revision SET revision = (TABLE kept)',
  [],
  404,
];

describe('a response kept across writes', () => {
  /** A server whose cache holds the first page and the third pet, and another connection to its file. */
  async function start() {
    const { add, get, databaseUrl, metrics, store } = await startApp();
    // As a server does every five seconds. Otherwise a first read belongs to the state of the store that an earlier test had, and is kept later.
    await store.check();
    for (let id = 1; id <= 6; id++) await add({ name: `pet ${id}`, categoryId: 1 });
    const sql = (text: string) => runSql(databaseUrl, text);
    const page = async () => (await get('/v1/pets?limit=3')).json.map(({ name }: { name: string }) => name);
    const third = async () => (await get('/v1/pets/3')).status;
    const counts = () => Promise.all(['hits', 'misses'].map((name) => metricValue(metrics, `cache_${name}_total`)));
    for (let times = 0; times < 3; times++) await Promise.all([page(), third()]);
    // Other tests use this store.
    onTestFinished(() =>
      sql('INSERT INTO pet_revision (revision) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM pet_revision)'),
    );
    return { add, sql, page, third, counts };
  }

  test.skipIf(process.env.PLAIN === 'on')(
    'stays kept, if it is a full page or a pet, when a pet is added',
    async () => {
      // A sweep would forget what was read once.
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
      onTestFinished(() => void vi.useRealTimers());
      const { add, page, third, counts } = await start();
      expect(await counts()).toEqual([2, 4]);
      for (let times = 1; times <= 5; times++) {
        await add({ name: 'another', categoryId: 1 });
        expect(await page()).toEqual(['pet 1', 'pet 2', 'pet 3']);
        expect(await third()).toBe(200);
      }
      expect(await counts()).toEqual([12, 4]);
    },
  );

  test.for<Row>([
    ['an update', "UPDATE pet SET name = 'renamed' WHERE id = 2", ['pet 1', 'renamed', 'pet 3'], 200],
    ['a deletion', 'DELETE FROM pet WHERE id = 3', ['pet 1', 'pet 2', 'pet 4'], 404],
    ['a replacement', replace(1), ['replaced', 'pet 2', 'pet 3'], 200],
    ['a replacement of the last', replace(3), ['pet 1', 'pet 2', 'replaced'], 200, 'DELETE FROM pet WHERE id > 3'],
    ['a deletion after the page', 'DELETE FROM pet WHERE id > 3', ['pet 1', 'pet 2', 'pet 3'], 200],
    [
      'a pet added below the highest id, as SQL by hand can',
      `INSERT ${replaced(2)}`,
      ['pet 1', 'replaced', 'pet 3'],
      200,
      'DELETE FROM pet WHERE id = 2',
    ],
    [
      'a change while the row of the revision is missing',
      "UPDATE pet SET name = 'renamed' WHERE id = 2",
      ['pet 1', 'renamed', 'pet 3'],
      200,
      'DELETE FROM pet_revision',
    ],
    ...(engine === 'SQLite' ? [] : [truncation]),
  ])('shows at once %s', async ([, change, names, status, before]) => {
    const { sql, page, third } = await start();
    if (before) await sql(before);
    for (let times = 0; times < 3; times++) await page();
    await sql(change);
    expect(await page()).toEqual(names);
    expect(await third()).toBe(status);
  });
});
