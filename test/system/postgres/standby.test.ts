/** Tests of commits that wait for a synchronous standby: nothing shows them before it has them, and they hold few connections. */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { sessionSettings } from '../../../src/store/postgres/connection.ts';
import { maxBackends } from '../../support/newest-load.ts';
import { missingPostgres, startPair } from '../../support/postgres.ts';
import { launchCli, type Server, startServer } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf } from '../../support/store.ts';
import { figure, tier } from '../../support/tier.ts';
import { missingPgbouncer, startPgbouncer } from './pgbouncer.ts';

beforeEach(({ skip }) => {
  if (missingPostgres) skip(missingPostgres);
});

/** Most writes of a server with ten connections that wait for the standby: half of the seven for keys, and of the three for strangers. */
const mostWaiting = 4 + 2;

/** A server on a primary, whose WAL can be kept from its synchronous standby. */
async function start(parameters = '', pooled = false) {
  let wal: Awaited<ReturnType<typeof startProxy>> | undefined;
  const { primary, standby, end } = await startPair(async (url) => {
    wal = await startProxy(url);
    return wal.url;
  });
  onTestFinished(end);
  const sql = clientOf(primary.url('postgres'));
  await sql`CREATE DATABASE animals`;
  if (pooled)
    for (const [name, value] of Object.entries({ ...sessionSettings, synchronous_commit: 'on' }))
      await sql.unsafe(`ALTER DATABASE animals SET ${name} = ${value}`);
  const address = await startProxy(primary.url('animals'));
  const url = pooled ? `${await startPgbouncer(address.url, 10)}?prepare=false` : address.url + parameters;
  const env = { DATABASE_URL: url };
  const server = await startServer({ env });
  const key = await server.firstKey();
  const waiting = async (query = '%') =>
    (await sql`SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE ${query}`).length;
  return {
    primary,
    standby,
    address,
    server,
    key,
    sql,
    env,
    waiting,
    /** How many additions wait. Beside them the uses of keys may, which a server writes each minute and when it stops. */
    additions: () => waiting('%add_pets%'),
    /** Drops what the primary sends to its standby. */
    loseWal: () => wal?.silence(),
    /** The standby connects again, and gets what it lacks. */
    deliverWal() {
      wal?.restore();
      wal?.leadTo(primary.url('postgres'));
    },
    backends: async () => (await sql`SELECT FROM pg_stat_activity WHERE application_name = 'animal-store'`).length,
  };
}

const named = (name: string) => ({ name, categoryId: 1 });
const retry = { 'idempotency-key': 'k' };

/** A server that did not print the key. */
const withKey = ({ call, ...server }: Server, key: string) => ({
  ...server,
  call,
  add: (pet: object, headers?: Record<string, string>) => call(key, 'POST', '/v1/pets', pet, headers),
  get: (path: string) => call(key, 'GET', path),
});

/** The status of an animal, and the names in the list. */
async function seen(server: Pick<Server, 'get'>, id: number) {
  const [one, list] = await Promise.all([server.get(`/v1/pets/${id}`), server.get('/v1/pets?limit=100')]);
  return { one: one.status, list: [list.status, ...list.json.map(({ name }: { name: string }) => name)] };
}

const hidden = { one: 404, list: [200, 'first'] };

/** Adds an animal that the standby does not get. It must stay hidden, and no other is added, for much longer than a deadline. */
async function addLost({ server, loseWal, waiting, additions }: Awaited<ReturnType<typeof start>>) {
  expect(await server.add(named('first'))).toMatchObject({ status: 201, json: { id: 1 } });
  loseWal();
  const { status, headers } = await server.add(named('second'), retry);
  expect([status, headers.get('retry-after')]).toEqual([503, '1']);
  for (const until = performance.now() + tier(8000, 240_000); performance.now() < until; await sleep(200)) {
    expect(await seen(server, 2)).toEqual(hidden);
    const others = await Promise.all([server.add(named('third')), server.add(named('second'), retry)]);
    expect(others.map((other) => other.status)).toEqual([503, 503]);
    expect(await additions()).toBe(1);
    expect(await waiting()).toBeLessThanOrEqual(tier(1, mostWaiting));
  }
}

describe.for([false, true])('a create that waits for its standby (through PgBouncer: %s)', (pooled) => {
  beforeEach(({ skip }) => {
    if (pooled && missingPgbouncer) skip(missingPgbouncer);
  });

  test('is never read if the primary is lost with it: its id names one animal', async () => {
    const scene = await start('', pooled);
    await addLost(scene);
    const { primary, standby, server, address } = scene;
    await primary.kill();
    await standby.promote();
    address.leadTo(standby.url('animals'));
    // PgBouncer connects again 15 s after an attempt that failed.
    await expect.poll(async () => (await server.get('/v1/pets/1')).status, { timeout: 30_000 }).toBe(200);
    expect(await seen(server, 2)).toEqual(hidden);
    await expect.poll(async () => (await server.add(named('third'))).json).toMatchObject({ id: 2, name: 'third' });
    expect(await server.add(named('second'), retry)).toMatchObject({ status: 201, json: { id: 3, name: 'second' } });
  });

  test('is there once when the standby has it, also if its server has stopped, and its retry returns it', async () => {
    const scene = await start('', pooled);
    await addLost(scene);
    await scene.server.stop();
    await sleep(1000);
    expect(await scene.additions()).toBe(1);
    expect(await scene.waiting()).toBeLessThanOrEqual(tier(2, mostWaiting));
    const server = withKey(await startServer({ env: scene.env }), scene.key);
    expect(await seen(server, 2)).toEqual(hidden);
    scene.deliverWal();
    await expect.poll(() => seen(server, 2)).toEqual({ one: 200, list: [200, 'first', 'second'] });
    const again = await server.add(named('second'), retry);
    expect([again.status, again.json.id, again.headers.get('idempotent-replayed')]).toEqual([201, 2, 'true']);
    expect(await server.add(named('third'))).toMatchObject({ status: 201, json: { id: 3 } });
  });
});

test('a command that waits for its standby goes on waiting when it has ended, and changes nothing before', async () => {
  const { server, key, loseWal, deliverWal, waiting, sql, env, primary } = await start();
  const animals = clientOf(primary.url('animals'));
  loseWal();
  const names = async () => (await animals`SELECT name FROM account ORDER BY id`).map(({ name }) => name);
  expect(await launchCli(['account', 'add', 'zoo'], { env }).end()).toMatchObject({ code: 1 });
  expect((await server.call(key, 'POST', '/quickstart/messages', { message: 'hello' })).status).toBe(503);
  await sleep(5000);
  expect([await names(), await waiting()]).toEqual([['first'], 2]);
  expect(await animals`SELECT FROM message`).toHaveLength(0);
  deliverWal();
  await expect.poll(names).toEqual(['first', 'zoo']);
  await expect.poll(() => animals`SELECT FROM message`).toHaveLength(1);
  expect(await sql`SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).toHaveLength(0);
});

test.for([10, 1])(
  'with connections=%d, a long wait for the standby holds few connections, and reads go on',
  async (connections) => {
    const { server, key, standby, waiting, backends } = await start(`?connections=${connections}`);
    await server.add(named('first'));
    let stopped = false;
    const statuses = new Set<string>();
    let [lastRead, withoutReadsMs] = [performance.now(), 0];
    const send = async (kind: string, method: string, path: string, body?: object) => {
      while (!stopped) {
        const { status } = await server.call(key, method, path, body).catch(() => ({ status: 0 }));
        statuses.add(`${kind} ${status}`);
        if (status === 200) {
          withoutReadsMs = Math.max(withoutReadsMs, performance.now() - lastRead);
          lastRead = performance.now();
        }
        if (status !== 200) await sleep(20);
      }
    };
    const clients = Array.from(Array(16), (_, at) => [
      send('write', 'POST', '/v1/pets', named(`${at}`)),
      send('write', 'POST', '/quickstart/messages', { message: 'hello' }),
      send('read', 'GET', '/v1/pets/1'),
      send('read', 'GET', '/v1/pets'),
    ]).flat();
    onTestFinished(() => {
      stopped = true;
    });
    await sleep(500);
    standby.freeze();
    await sleep(6000);
    statuses.clear();
    withoutReadsMs = 0;
    let [most, mostOpen] = [0, 0];
    for (const until = performance.now() + tier(10_000, 240_000); performance.now() < until; await sleep(100)) {
      most = Math.max(most, await waiting());
      mostOpen = Math.max(mostOpen, await backends());
    }
    expect([...statuses].sort()).toEqual(['read 200', 'write 503']);
    figure(`a standby that is away, connections=${connections}`, { waiting: most, backends: mostOpen, withoutReadsMs });
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(connections === 1 ? 1 : mostWaiting);
    expect(mostOpen).toBeLessThanOrEqual(connections === 1 ? 3 : maxBackends);
    standby.thaw();
    await expect.poll(async () => (await server.add(named('last'))).status).toBe(201);
    stopped = true;
    await Promise.all(clients);
    await expect.poll(server.metrics).toMatch(/^animal_store_database_connections_abandoned 0$/m);
  },
);
