/** Tests of requests when PostgreSQL refuses them, does not respond, or loses the connection. */
import { writeFileSync } from 'node:fs';
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

  test.each(['53100', 'XX001'])('gets 503 without a retry for other temporary errors: %s', async (code) => {
    const { store, databaseUrl } = await failing(code, 1);
    await expect(store.pets.add(biscuit)).rejects.toMatchObject({
      ...unavailable,
      cause: { code, message: 'canary_3b1c' },
    });
    expect(await attempts(databaseUrl)).toBe(1);
    expect(await store.pets.add(biscuit)).toMatchObject({ outcome: 'added', id: 1n });
  });

  test('gets 500 if it is a bug, and the error holds no row data', async () => {
    const { store } = await failing('23514', 1);
    const rejection = await store.pets.add(biscuit).catch((error: unknown) => error);
    expect(rejection).toMatchObject({ code: '23514', message: 'canary_3b1c' });
    expect(JSON.stringify(rejection)).not.toContain('canary_77aa');
  });
});

describe('a response that is lost with its connection', () => {
  test('is replayed to a write that is repeated with its Idempotency-Key', async () => {
    const { proxy, store } = await openThroughProxy();
    await store.pets.add(biscuit);
    proxy.cutNextAnswer();
    const retry = { accountId: 1, key: 'k' };
    await expect(store.pets.add(biscuit, retry)).rejects.toMatchObject(unavailable);
    expect(await store.pets.add(biscuit, retry)).toMatchObject({ outcome: 'replayed', id: 2n });
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
