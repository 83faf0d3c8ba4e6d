/** Tests of requests when PostgreSQL refuses them, does not respond, or loses the connection, and of what is counted then. */
import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startServer } from '../../support/process.ts';
import { read } from '../../support/project.ts';
import { startProxy } from '../../support/proxy.ts';
import {
  biscuit,
  clientOf,
  countCommits,
  newDatabase,
  newStore,
  open,
  textRows,
  waitingForLocks,
} from '../../support/store.ts';
import { startOwn } from './own-postgres.ts';

const everything = { limit: 100, after: 0n };
const unavailable = { code: 'service_unavailable' };

/** A store in which the first `times` additions fail with `code` when the pet is inserted or its transaction committed. */
async function failing(code: string, times: number, when: 'inserted' | 'committed' = 'inserted') {
  const databaseUrl = await newStore();
  await clientOf(databaseUrl).unsafe(`
    CREATE SEQUENCE tries;
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF nextval('tries') <= ${times} THEN RAISE EXCEPTION 'told' USING ERRCODE = '${code}'; END IF;
      RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON pet ${when === 'committed' ? 'DEFERRABLE INITIALLY DEFERRED' : ''}
      FOR EACH ROW EXECUTE FUNCTION fail();`);
  const { commits, metrics } = countCommits();
  const attempts = async () => Number((await textRows(databaseUrl, 'SELECT last_value FROM tries'))[0]?.last_value);
  return { store: await open(databaseUrl, { metrics }), commits, attempts };
}

test.for([
  ['40001', 'inserted'],
  ['40P01', 'inserted'],
  ['40001', 'committed'],
] as const)('a write that the database refuses is retried and done once: %s when it is %s', async ([code, when]) => {
  const { store, attempts } = await failing(code, 3, when);
  expect(await store.pets.add(biscuit)).toMatchObject({ outcome: 'added', id: 1n });
  expect((await store.pets.list(everything)).pets).toHaveLength(1);
  expect(await attempts()).toBe(4);
});

test('a write that fails for another temporary reason is not retried, and counts as failed', async () => {
  const { store, attempts, commits } = await failing('53100', 1);
  expect(store.measure()).toMatchObject({ failedWrites: { disk_full: 0 } });
  const writes = await Promise.allSettled([store.pets.add(biscuit), store.pets.add(biscuit)]);
  const reason = { ...unavailable, cause: { code: '53100', message: 'told' } };
  expect(writes).toMatchObject([{ reason }, { reason }]);
  expect(await attempts()).toBe(1);
  const { failedWrites, pool } = store.measure();
  expect([failedWrites?.disk_full, pool?.errors.disk_full, commits]).toEqual([2, 1, []]);
  expect(await store.pets.add(biscuit)).toMatchObject({ outcome: 'added', id: 1n });
  expect(commits).toEqual([1]);
});

test('a write that arrives with the last answer of a connection, and the end of that connection, is not sent on it', async () => {
  const databaseUrl = await newDatabase();
  const proxy = await startProxy(databaseUrl);
  const server = await startServer({ env: { DATABASE_URL: proxy.url } });
  const create = () => server.add();
  // Two connections stay open for the next two requests.
  await Promise.all([create(), create()]);
  const sql = clientOf(databaseUrl);
  const lock = await clientOf(databaseUrl).reserve();
  await lock`BEGIN`;
  await lock`SELECT FROM pet_id FOR UPDATE`;
  const first = create();
  await expect.poll(() => waitingForLocks(sql)).toBe(1);
  process.kill(server.pid, 'SIGSTOP');
  await lock`COMMIT`;
  await expect.poll(() => textRows(databaseUrl, 'SELECT count(*)::text AS n FROM pet')).toEqual([{ n: '3' }]);
  const second = create();
  await sleep(50);
  proxy.leadTo(databaseUrl);
  process.kill(server.pid, 'SIGCONT');
  expect([(await first).status, (await second).status]).toEqual([201, 201]);
});

test('while the database is silent, each request gets 503, and the server is not ready', async () => {
  const databaseUrl = await newDatabase();
  const proxy = await startProxy(databaseUrl);
  const server = await startServer({ env: { DATABASE_URL: proxy.url } });
  const ops = async (target: string) => (await fetch(server.opsUrl() + target)).status;
  const list = () => server.get('/v1/pets');
  expect([(await list()).status, await ops('/readyz')]).toEqual([200, 200]);
  proxy.silence();
  const requests = Array.from(Array(40), (_, at) => (at % 3 ? list() : server.add()));
  const answers = (await Promise.all(requests)).map(({ status, headers }) => [status, headers.get('retry-after')]);
  expect(answers).toEqual(Array(40).fill([503, '1']));
  expect([await ops('/readyz'), await ops('/livez')]).toEqual([503, 200]);
  proxy.restore();
  await expect.poll(() => ops('/readyz')).toBe(200);
  expect((await list()).status).toBe(200);
  expect((await server.call('ast_test_unknown', 'GET', '/v1/pets')).status).toBe(401);
  expect(server.stderr()).not.toContain('Warning');
  await server.stop();
});

test('no request is answered by a standby that the address leads to', async () => {
  const databaseUrl = (await startOwn()).url('postgres');
  const proxy = await startProxy(databaseUrl);
  const store = await open(proxy.url);
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

test('the metrics have what alerts and dashboard ask for, and the time of each statement', async () => {
  const server = await startServer({ env: { DATABASE_URL: await newStore() } });
  const asked = read('deploy/prometheus/alerts.yml') + read('deploy/grafana/dashboard.json');
  const text = await server.metrics();
  const names = new Set(asked.match(/animal_store_database_[a-z_]+/g));
  expect(names.size).toBeGreaterThan(2);
  for (const name of names) expect(text).toContain(`# TYPE ${name.replace(/_(bucket|count|sum)$/, '')} `);
  const writes = (text: string) =>
    Number(/^animal_store_database_query_duration_seconds_count\{kind="write"\} (\d+)$/m.exec(text)?.[1]);
  await server.add();
  expect(writes(await server.metrics())).toBeGreaterThan(writes(text));
});
