/** Tests of requests when PostgreSQL refuses them, does not respond, or loses the connection. */
import { writeFileSync } from 'node:fs';
import postgres from 'postgres';
import { describe, expect, test } from 'vitest';
import { newSecret, type Secret, scopes } from '../../../src/core/accounts.ts';
import type { Store } from '../../../src/store/store.ts';
import { startApp } from '../../support/app.ts';
import { startOwn } from '../../support/own-postgres.ts';
import { startServer } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, emptyStore, newDatabase, open, textRows } from '../../support/store.ts';
import { figure } from '../../support/tier.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;
const everything = { limit: 100, after: 0n };
const unavailable = { code: 'service_unavailable' };

async function addKey({ accounts }: Store): Promise<Secret> {
  const secret = newSecret(false);
  await accounts.addAccount('owner');
  await accounts.addKey({ account: 'owner', name: 'k', scopes: [...scopes], lifetimeMs: null, secret });
  return secret;
}

/** A store behind a proxy that can cut or silence its connections. */
async function openThroughProxy() {
  const databaseUrl = await emptyStore();
  const proxy = await startProxy(databaseUrl);
  return { databaseUrl, proxy, store: await open(proxy.through(databaseUrl)) };
}

/** A store in which the first `times` additions fail with `code` when the pet is inserted or its transaction committed. */
async function failing(
  code: string,
  times: number,
  when: 'inserted' | 'committed' = 'inserted',
): Promise<{ store: Store; databaseUrl: string }> {
  const databaseUrl = await newDatabase({ template: 'template_animals' });
  await clientOf(databaseUrl).unsafe(`
    CREATE SEQUENCE tries;
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF nextval('tries') <= ${times} THEN RAISE EXCEPTION 'canary_3b1c' USING ERRCODE = '${code}', DETAIL = 'canary_77aa'; END IF;
      RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON pet ${when === 'committed' ? 'DEFERRABLE INITIALLY DEFERRED' : ''}
      FOR EACH ROW EXECUTE FUNCTION fail();`);
  return { store: await open(databaseUrl), databaseUrl };
}

const attempts = async (databaseUrl: string) =>
  Number((await textRows(databaseUrl, 'SELECT last_value FROM tries'))[0]?.last_value);

describe('a write that the database refuses', () => {
  test.for([
    ['40001', 'inserted'],
    ['40P01', 'inserted'],
    ['40001', 'committed'],
  ] as const)('is retried and done once: %s when it is %s', async ([code, when]) => {
    const { store, databaseUrl } = await failing(code, 3, when);
    expect(await store.pets.add(biscuit)).toMatchObject({ outcome: 'added', id: 1n });
    expect((await store.pets.list(everything)).pets).toHaveLength(1);
    expect(await attempts(databaseUrl)).toBe(4);
  });

  test('is retried and done once if three servers conflict with serializable transactions', async () => {
    const databaseUrl = await newDatabase({ template: 'template_animals' });
    const sql = clientOf(databaseUrl);
    const name = new URL(databaseUrl).pathname.slice(1);
    await sql.unsafe(`ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable'`);
    const stores = await Promise.all([1, 2, 3].map(() => open(databaseUrl)));
    const waiting = async () =>
      (await sql`SELECT FROM pg_stat_activity WHERE datname = ${name} AND wait_event_type = 'Lock'`).length;
    const other = await clientOf(databaseUrl).reserve();
    await other`BEGIN`;
    await other`UPDATE pet_id SET last_id = last_id`;
    const retry = { accountId: 1, key: 'k' };
    const adding = Promise.all(stores.flatMap(({ pets }) => [pets.add(biscuit), pets.add(biscuit, retry)]));
    await expect.poll(waiting, { timeout: 5000, interval: 5 }).toBe(3);
    await other`COMMIT`;
    other.release();
    await adding;
    expect(await textRows(databaseUrl, 'SELECT count(*), max(id) FROM pet')).toEqual([{ count: '4', max: '4' }]);
    // Each session reports its rollbacks when it ends.
    await Promise.all(stores.map((store) => store.close()));
    const refused = async () =>
      Number((await sql`SELECT xact_rollback FROM pg_stat_database WHERE datname = ${name}`)[0]?.xact_rollback);
    await expect.poll(refused, { timeout: 5000 }).toBeGreaterThanOrEqual(3);
  });

  test('gets 503 after its deadline', async () => {
    const { store, databaseUrl } = await failing('40001', 1_000_000);
    await expect(store.pets.add(biscuit)).rejects.toMatchObject(unavailable);
    expect(await attempts(databaseUrl)).toBeGreaterThan(5);
  });

  test.each(['53100', '58030', '57014', 'XX001'])(
    'gets 503 without a retry for other temporary errors: %s',
    async (code) => {
      const { store, databaseUrl } = await failing(code, 1);
      await expect(store.pets.add(biscuit)).rejects.toMatchObject({
        ...unavailable,
        cause: { code, message: 'canary_3b1c' },
      });
      expect(await attempts(databaseUrl)).toBe(1);
      expect(await store.pets.add(biscuit)).toMatchObject({ outcome: 'added', id: 1n });
    },
  );

  test('gets 500 if it is a bug, and the error holds no row data', async () => {
    const { store } = await failing('23514', 1);
    const rejection = await store.pets.add(biscuit).catch((error: unknown) => error);
    expect(rejection).toMatchObject({ code: '23514', message: 'canary_3b1c' });
    expect(JSON.stringify(rejection)).not.toContain('canary_77aa');
  });
});

describe('a response that is lost with its connection', () => {
  test('ends a write with 503 and without a retry, because its outcome is unknown', async () => {
    const { databaseUrl, proxy, store } = await openThroughProxy();
    // The driver describes the first statement on a connection in an extra round trip.
    await store.pets.add(biscuit);
    for (let lost = 1; lost <= 5; lost++) {
      proxy.cutNextAnswer();
      await expect(store.pets.add(biscuit)).rejects.toMatchObject(unavailable);
      await store.pets.add({ ...biscuit, name: 'after' });
      expect(await textRows(databaseUrl, `SELECT count(*) FROM pet WHERE name = 'Biscuit'`)).toEqual([
        { count: `${lost + 1}` },
      ]);
    }
  });

  test('ends a write with 503 after its deadline, without a retry, if the database is silent', async () => {
    const { databaseUrl, proxy, store } = await openThroughProxy();
    await store.pets.add(biscuit);
    proxy.silence();
    await expect(store.pets.add({ ...biscuit, name: 'lost' })).rejects.toMatchObject(unavailable);
    proxy.restore();
    expect(await store.pets.add({ ...biscuit, name: 'after' })).toMatchObject({ id: 2n });
    expect(await textRows(databaseUrl, 'SELECT name FROM pet ORDER BY id')).toEqual([
      { name: 'Biscuit' },
      { name: 'after' },
    ]);
  });

  test('is replayed to a write that is repeated with its Idempotency-Key', async () => {
    const { proxy, store } = await openThroughProxy();
    await store.pets.add(biscuit);
    proxy.cutNextAnswer();
    const retry = { accountId: 1, key: 'k' };
    await expect(store.pets.add(biscuit, retry)).rejects.toMatchObject(unavailable);
    expect(await store.pets.add(biscuit, retry)).toMatchObject({ outcome: 'replayed', id: 2n });
  });

  test('is read again for a read', async () => {
    const { proxy, store } = await openThroughProxy();
    await store.pets.add(biscuit);
    for (let time = 0; time < 5; time++) {
      proxy.cutNextAnswer();
      expect((await store.pets.list(everything)).pets).toHaveLength(1);
    }
  });
});

test('every request gets 503 while the database is silent, and is served when it is back', async () => {
  const { proxy, store } = await openThroughProxy();
  const { call, key: unknown } = await startApp({ store });
  const { key } = await addKey(store);
  await call('GET', '/v1/pets', { key });
  proxy.silence();
  const begun = performance.now();
  const answers = await Promise.all(
    Array.from({ length: 40 }, async (_, index) => {
      const path = index % 2 ? '/v1/pets' : `/v1/pets/${index + 1}`;
      const answer = await (index % 3
        ? call('GET', path, { key })
        : call('POST', '/v1/pets', { key, body: { name: 'x', categoryId: 1 } }));
      return [answer.status, answer.headers['retry-after']];
    }),
  );
  expect(answers).toEqual(Array(40).fill([503, '1']));
  figure(`a silent database: 40 requests answered 503 after ${Math.round(performance.now() - begun)} ms`);
  await expect(store.check()).rejects.toMatchObject(unavailable);
  proxy.restore();
  await expect
    .poll(
      () =>
        store.check().then(
          () => 'well',
          () => 'ill',
        ),
      { timeout: 3000 },
    )
    .toBe('well');
  expect((await call('GET', '/v1/pets', { key })).status).toBe(200);
  expect((await call('GET', '/v1/pets', { key: unknown })).status).toBe(401);
}, 30_000);

test('no request is answered by a standby that the address leads to', async () => {
  const databaseUrl = (await startOwn([], () => undefined)).url('postgres');
  const proxy = await startProxy(databaseUrl);
  const store = await open(proxy.through(databaseUrl));
  await store.pets.add(biscuit);
  const standby = await startOwn([], (data) => writeFileSync(`${data}/standby.signal`, ''));
  proxy.leadTo(standby.url('postgres'));
  await expect(store.pets.list(everything)).rejects.toMatchObject({
    ...unavailable,
    cause: new Error('it is a standby'),
  });
  await expect(store.pets.add(biscuit)).rejects.toMatchObject(unavailable);
  proxy.leadTo(databaseUrl);
  expect(await store.pets.add(biscuit)).toMatchObject({ id: 2n });
  expect((await store.pets.list(everything)).pets).toHaveLength(2);
});

describe('requests beyond the capacity of the database', () => {
  test('wait in a queue of limited length, and are refused at once if it is full', async () => {
    const databaseUrl = await emptyStore();
    const store = await open(`${databaseUrl}?connections=2`);
    const sql = postgres(databaseUrl, { max: 1 });
    const release = await sql.reserve();
    await release`BEGIN`;
    await release`LOCK TABLE pet`;
    const refusedAtOnce: string[] = [];
    let answered = false;
    // All different: equal reads of a turn count once.
    const lists = Array.from({ length: 10_100 }, (_, after) =>
      Promise.resolve(store.pets.list({ limit: 1, after: BigInt(after) })).catch((error: Error) => {
        if (!answered) refusedAtOnce.push(String(error.cause));
      }),
    );
    await new Promise((resolve) => setTimeout(resolve, 500));
    answered = true;
    await release`COMMIT`;
    release.release();
    await Promise.all(lists);
    await sql.end();
    expect(refusedAtOnce.length).toBeGreaterThanOrEqual(90);
    expect(refusedAtOnce.length).toBeLessThanOrEqual(100);
    expect(new Set(refusedAtOnce)).toEqual(new Set(['Error: too many requests are waiting for the database']));
    expect((await store.pets.list(everything)).pets).toEqual([]);
  });

  test('get 503 with Retry-After if no connection becomes free in time, and are served afterwards', async () => {
    const databaseUrl = await emptyStore();
    const store = await open(`${databaseUrl}?connections=2`);
    const { call } = await startApp({ store });
    const { key } = await addKey(store);
    // The key is cached from now on, so only queries for pets wait.
    await call('GET', '/v1/pets', { key });
    const sql = clientOf(databaseUrl);
    const release = await sql.reserve();
    await release`BEGIN`;
    await release`LOCK TABLE pet`;
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, id) => call('GET', `/v1/pets/${id + 1}`, { key })),
    );
    expect(answers.map(({ status, headers }) => [status, headers['retry-after']])).toEqual(Array(20).fill([503, '1']));
    await release`COMMIT`;
    release.release();
    expect((await call('GET', '/v1/pets', { key })).status).toBe(200);
  });

  test('get 503 if they add a pet and wait too long, and no pet is lost or duplicated', async () => {
    const databaseUrl = await emptyStore();
    const store = await open(databaseUrl);
    const outcomes = await Promise.allSettled(Array.from({ length: 10_020 }, () => store.pets.add(biscuit)));
    const added = outcomes.filter(({ status }) => status === 'fulfilled').length;
    expect(added).toBeLessThanOrEqual(10_000);
    expect(added).toBeGreaterThan(0);
    const [row] = await textRows(databaseUrl, 'SELECT count(*), count(DISTINCT id) AS ids FROM pet');
    expect(row?.count).toBe(row?.ids);
    expect(Number(row?.count)).toBeGreaterThanOrEqual(added);
  });

  test('get 503 if another server holds a lock for two seconds', async () => {
    const databaseUrl = await emptyStore();
    const store = await open(databaseUrl);
    const sql = postgres(databaseUrl, { max: 1 });
    const other = await sql.reserve();
    await other`BEGIN`;
    await other`SELECT FROM pet_id FOR UPDATE`;
    await expect(store.pets.add(biscuit)).rejects.toMatchObject(unavailable);
    await other`ROLLBACK`;
    other.release();
    await sql.end();
    expect(await store.pets.add(biscuit)).toMatchObject({ id: 1n });
  });
});

describe('the store', () => {
  test('writes what it accepted before it closes, and then rejects with 503', async () => {
    const databaseUrl = await emptyStore();
    const store = await open(databaseUrl);
    const adding = [store.pets.add(biscuit), store.pets.add(biscuit)];
    const listing = store.pets.list(everything);
    await store.close();
    expect(await Promise.all(adding)).toMatchObject([{ id: 1n }, { id: 2n }]);
    await listing;
    await expect(store.pets.add(biscuit)).rejects.toMatchObject(unavailable);
    await expect(store.pets.list(everything)).rejects.toMatchObject(unavailable);
    expect(await textRows(databaseUrl, 'SELECT count(*) FROM pet')).toEqual([{ count: '2' }]);
  });

  test('returns a waiting list before it closes', async () => {
    const databaseUrl = await emptyStore();
    const store = await open(databaseUrl);
    await store.pets.add(biscuit);
    const other = await clientOf(databaseUrl).reserve();
    await other`BEGIN`;
    await other`LOCK TABLE pet`;
    const listing = store.pets.list(everything);
    const closing = store.close();
    await other`COMMIT`;
    other.release();
    expect((await listing).pets).toHaveLength(1);
    await closing;
  });

  test('replaces connections that the server ends', async () => {
    const databaseUrl = await emptyStore();
    const store = await open(databaseUrl);
    const sql = clientOf(databaseUrl);
    for (let time = 0; time < 5; time++) {
      await store.pets.add(biscuit);
      await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`;
      expect((await store.pets.list(everything)).pets).toHaveLength(time + 1);
    }
  });
});

test('a server is not ready while the database is silent', async () => {
  const databaseUrl = await emptyStore();
  const proxy = await startProxy(databaseUrl);
  const server = await startServer({ env: { DATABASE_URL: proxy.through(databaseUrl) } });
  const statusOf = async (target: string) => (await fetch(server.opsUrl() + target)).status;
  expect(await statusOf('/readyz')).toBe(200);
  proxy.silence();
  expect(await Promise.all(Array.from({ length: 20 }, () => statusOf('/readyz')))).toEqual(Array(20).fill(503));
  expect(await statusOf('/livez')).toBe(200);
  proxy.restore();
  await expect.poll(() => statusOf('/readyz'), { timeout: 10_000 }).toBe(200);
  expect(server.stderr()).not.toContain('Warning');
  expect((await server.end('SIGTERM')).code).toBe(0);
});
