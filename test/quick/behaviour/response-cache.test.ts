/** Tests of the response cache: what it keeps, and that no response is older than an acknowledged write. */
import { Pool } from 'undici';
import { describe, expect, onTestFinished, test } from 'vitest';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { createMetrics } from '../../../src/http/metrics.ts';
import { render } from '../../../src/http/responses.ts';
import { createCache } from '../../../src/pets/response-cache.ts';
import { openStore } from '../../../src/store/open.ts';
import { startApp } from '../../support/app.ts';
import { startServer } from '../../support/process.ts';
import { emptyStore, engine, runSql } from '../../support/store.ts';
import { figure, tier } from '../../support/tier.ts';

describe('the response cache', () => {
  /** A cache over a store whose state the test sets. `get` returns the response for a key and numbers each new one. */
  function open() {
    let state = { version: 1, revision: 1 };
    let made = 0;
    const cache = createCache(() => state);
    const get = async (key: string, settled = false) => {
      const { body } = await cache.get(key, () => ({ rendered: render(`${key}${++made}`), settled, state }));
      return String(body);
    };
    const write = () => {
      state = { ...state, version: state.version + 1 };
    };
    const change = () => {
      state = { version: state.version + 1, revision: state.revision + 1 };
    };
    return { cache, get, write, change, now: () => state };
  }

  test('keeps a response that is requested a second time in the same state', async () => {
    const { cache, get, write } = open();
    expect([await get('a'), await get('a'), await get('a'), await get('b')]).toEqual(['a1', 'a2', 'a2', 'b3']);
    write();
    // Requested before, so the first response in a later state is kept.
    expect([await get('a'), await get('a'), await get('b'), await get('b')]).toEqual(['a4', 'a4', 'b5', 'b5']);
    expect(cache.use()).toEqual({ hits: 3, misses: 5 });
  });

  test('does not keep a response if the store changed while it was made', async () => {
    const { cache, get, write, now } = open();
    await get('a');
    const slow = cache.get('a', async () => {
      const state = now();
      await Promise.resolve();
      write();
      await get('b');
      return { rendered: render('old'), settled: false, state };
    });
    expect((await slow).body).toBe('old');
    expect(await get('a')).toBe('a3');
  });

  test('is bounded, and keeps responses while they are requested', () => {
    const cache = createCache(() => state);
    const state = { version: 1, revision: 1 };
    let made = 0;
    const get = (key: number) =>
      cache.get(String(key), () => {
        made += 1;
        return { rendered: render('x'.repeat(512 * 1024)), settled: true, state };
      });
    for (const _time of ['first', 'second', 'third']) for (let key = 0; key < 20; key++) get(key);
    // There is room for 15.
    expect(made).toBe(45);
    cache.sweep();
    for (let key = 0; key < 10; key++) get(key);
    // No response has needed room since.
    cache.sweep();
    for (let key = 0; key < 15; key++) get(key);
    expect(made).toBe(45);
    for (const _time of ['first', 'second', 'third']) get(19);
    expect(made).toBe(48);
    cache.sweep();
    for (let key = 0; key < 10; key++) get(key);
    for (const _time of ['first', 'second']) get(19);
    cache.sweep();
    // Responses that nobody requested have made room.
    for (const _time of ['first', 'second', 'third']) get(19);
    expect(made).toBe(52);
  });

  test('remembers at most 10,000 keys that were requested once, until the next sweep', async () => {
    const { cache, get } = open();
    for (let key = 0; key < 10_000; key++) await get(String(key));
    expect([await get('more'), await get('more'), await get('more')]).toEqual(['more10001', 'more10002', 'more10003']);
    expect([await get('0'), await get('0')]).toEqual(['010004', '010004']);
    cache.sweep();
    expect([await get('1'), await get('1'), await get('1')]).toEqual(['110005', '110006', '110006']);
  });
});

describe('no reader sees a page older than an acknowledged write', () => {
  test('from the same process', async () => {
    const { add, call } = await startApp();
    for (let count = 1; count <= 30; count++) {
      await call('GET', '/v1/pets?limit=100');
      await add({ name: `pet ${count}`, categoryId: 1 });
      expect((await call('GET', '/v1/pets?limit=100')).json).toHaveLength(count);
    }
  });

  test('from another connection, as in another process', async () => {
    const { databaseUrl, call } = await startApp();
    const other = await openStore(databaseUrl, { now: () => new Date() });
    try {
      for (let count = 1; count <= 30; count++) {
        expect((await call('GET', `/v1/pets/${count}`)).status).toBe(404);
        await call('GET', '/v1/pets?limit=100');
        await other.pets.add({ name: `pet ${count}`, categoryId: 1n, status: 'sold' });
        expect((await call('GET', '/v1/pets?limit=100')).json).toHaveLength(count);
        expect((await call('GET', `/v1/pets/${count}`)).status).toBe(200);
      }
    } finally {
      await other.close();
    }
  });
});

const replaced = (id: number) => `INTO pet (id, name, category_id, status) VALUES (${id}, 'replaced', 1, 'sold')`;

/** A statement that puts another pet in the place of the one with this id. */
const replace = (id: number) =>
  engine === 'SQLite'
    ? `INSERT OR REPLACE ${replaced(id)}`
    : `INSERT ${replaced(id)} ON CONFLICT (id) DO UPDATE SET name = excluded.name`;

describe('a response kept across writes', () => {
  /** A server whose cache holds the first page and the third pet, and another connection to its file. */
  async function start() {
    const metrics = createMetrics('test');
    const { add, call, databaseUrl } = await startApp({ metrics });
    for (let id = 1; id <= 6; id++) await add({ name: `pet ${id}`, categoryId: 1 });
    const sql = (text: string) => runSql(databaseUrl, text);
    const page = async () => (await call('GET', '/v1/pets?limit=3')).json.map(({ name }: { name: string }) => name);
    const third = async () => (await call('GET', '/v1/pets/3')).status;
    const hits = async () =>
      (await metrics.registry.getSingleMetric('animal_store_cache_hits_total')?.get())?.values[0]?.value;
    for (let times = 0; times < 3; times++) await Promise.all([page(), third()]);
    return { add, sql, page, third, hits };
  }

  test('stays kept, if it is a full page or a pet, when a pet is added', async () => {
    const { add, page, third, hits } = await start();
    const before = (await hits()) as number;
    for (let times = 1; times <= 5; times++) {
      await add({ name: 'another', categoryId: 1 });
      expect(await page()).toEqual(['pet 1', 'pet 2', 'pet 3']);
      expect(await third()).toBe(200);
    }
    expect(await hits()).toBe(before + 10);
  });

  test.for([
    ['an update', "UPDATE pet SET name = 'renamed' WHERE id = 2", ['pet 1', 'renamed', 'pet 3'], 200],
    ['a deletion', 'DELETE FROM pet WHERE id = 3', ['pet 1', 'pet 2', 'pet 4'], 404],
    ['a replacement', replace(1), ['replaced', 'pet 2', 'pet 3'], 200],
    ['a deletion after the page', 'DELETE FROM pet WHERE id > 3', ['pet 1', 'pet 2', 'pet 3'], 200],
  ] as const)('shows %s from outside at once', async ([, change, names, status]) => {
    const { sql, page, third } = await start();
    await sql(change);
    expect(await page()).toEqual(names);
    expect(await third()).toBe(status);
  });

  test('shows at once a pet added below the highest id, as SQL by hand can', async () => {
    const { sql, page } = await start();
    await sql('DELETE FROM pet WHERE id = 2');
    for (let times = 0; times < 3; times++) expect(await page()).toEqual(['pet 1', 'pet 3', 'pet 4']);
    await sql("INSERT INTO pet (id, name, category_id, status) VALUES (2, 'back', 1, 'sold')");
    expect(await page()).toEqual(['pet 1', 'back', 'pet 3']);
  });

  test('shows at once that the pet with the highest id was replaced', async () => {
    const { sql, page } = await start();
    await sql('DELETE FROM pet WHERE id > 4');
    for (let times = 0; times < 3; times++) await page();
    await sql(replace(4));
    await sql('DELETE FROM pet WHERE id = 1');
    expect(await page()).toEqual(['pet 2', 'pet 3', 'replaced']);
  });
});

/** Two servers on one store. */
async function startTwo() {
  const databaseUrl = await emptyStore();
  const store = await openStore(databaseUrl, { now: () => new Date() });
  const secret = newSecret(false);
  await store.accounts.addAccount('tests');
  await store.accounts.addKey({ account: 'tests', name: 'test', scopes: [...scopes], lifetimeMs: null, secret });
  await store.close();
  const env = { DATABASE_URL: databaseUrl };
  const [writer, reader] = await Promise.all([startServer({ env }), startServer({ env })]);
  return { writer, reader, key: secret.key };
}

test('two servers on one store each see what the other has acknowledged', async () => {
  const { writer, reader, key } = await startTwo();
  // Keeps the event loop busy, so that several reads share a snapshot.
  const pool = new Pool(reader.url, { connections: 20, pipelining: 4 });
  onTestFinished(() => pool.destroy());
  const headers = { authorization: `Bearer ${key}` };
  const after = (id: number) => (id === 0 ? '' : `&cursor=${Buffer.from(`after:${id}`).toString('base64url')}`);
  let begin = 0;
  /** The last page: all read it again and again, so it is kept, and each addition changes it. */
  const lastPage = () => `/v1/pets?limit=100${after(begin)}`;
  let done = false;
  const load = Array.from({ length: 40 }, async () => {
    while (!done) await pool.request({ method: 'GET', path: lastPage(), headers }).then(({ body }) => body.dump());
  });
  // On PostgreSQL fewer do not find a state that is read a turn too early.
  const rounds = tier(engine === 'SQLite' ? 25 : 400, 3000);
  // A busy machine must not turn it into a time-out.
  const until = performance.now() + tier(10_000, 600_000);
  let added = 0;
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      for (let round = 0; round < rounds && performance.now() < until; round++) {
        const { json } = await writer.call(key, 'POST', '/v1/pets', { name: 'x', categoryId: 1 });
        const { id } = json;
        added += 1;
        expect((await reader.call(key, 'GET', lastPage())).json).toContainEqual(json);
        expect((await reader.call(key, 'GET', `/v1/pets/${id}`)).status).toBe(200);
        expect((await reader.call(key, 'GET', `/v1/pets?limit=1${after(id - 1)}`)).json).toMatchObject([{ id }]);
        if (id - begin > 50) begin = id - 20;
      }
    }),
  );
  done = true;
  await Promise.all(load);
  expect(added).toBeGreaterThan(40);
  figure(`${added} animals added through one server, each visible at once through another that is busy`);
});
