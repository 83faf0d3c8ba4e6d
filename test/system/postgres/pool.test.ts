/** Tests of the pools on a real PostgreSQL: which work waits, which runs again, and what the deadline does. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { refuseStandby, sessionSettings } from '../../../src/store/postgres/connection.ts';
import { TimeoutError } from '../../../src/store/postgres/errors.ts';
import type { Connection } from '../../../src/store/postgres/sql.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, emptyStore, openPools } from '../../support/store.ts';

async function start(connections: number) {
  const databaseUrl = await emptyStore();
  const proxy = await startProxy(databaseUrl);
  const metrics = { commit: vi.fn(), query: vi.fn(), failed: vi.fn() };
  const pools = await openPools(proxy.url, { connections }, metrics);
  const sql = clientOf(databaseUrl);
  const sessions = async () =>
    (await sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'animal-store'`)
      .length;
  return { pools, proxy, metrics, sql, sessions, ...pools };
}

const sleepFor = (seconds: number) => (connection: Connection) => connection`SELECT pg_sleep(${seconds})`;
const pid = async (connection: Connection) => (await connection`SELECT pg_backend_pid() AS pid`)[0]?.pid as number;
const failed = { code: 'service_unavailable' };
const unavailable = (cause: unknown) => ({ ...failed, cause });

test('if the database grants fewer connections, work waits only for those that are open', async () => {
  const databaseUrl = await emptyStore();
  const sql = clientOf(databaseUrl);
  await sql`CREATE ROLE limited LOGIN CONNECTION LIMIT 2`;
  onTestFinished(async () => void (await sql`DROP ROLE limited`));
  const pools = await openPools(databaseUrl, { user: 'limited', connections: 12 });
  await pools.keyed.read(pid);
  for (let turn = 0; turn < 50; turn++) await Promise.all(Array.from(Array(20), () => pools.keyed.read(pid)));
  const { limit, errors } = pools.measure().pool;
  expect(limit).toBe(12);
  expect(errors.connection).toBeGreaterThan(0);
  // Not one in each turn.
  expect(errors.connection).toBeLessThan(30);
});

test('requests without a key never take the connections of the others; with one connection they share it', async () => {
  const { keyed, strangers } = await start(4);
  const slow = Promise.all(Array.from(Array(3), () => strangers.read(sleepFor(0.7))));
  await keyed.read(pid);
  expect(strangers.measure()).toMatchObject({ busy: 1, waiting: 2 });
  await slow;
  const single = await start(1);
  expect(single.strangers).toBe(single.keyed);
  expect(single.pools.measure().pool.limit).toBe(1);
});

test('work is rejected at its deadline: waiting work never starts, running work keeps its place until the database has ended it', async () => {
  const { keyed, metrics, pools } = await start(1);
  const begun = performance.now();
  const running = keyed.read(sleepFor(60), 500);
  const never = vi.fn();
  const waiting = keyed.read(never, 300);
  await expect(waiting).rejects.toMatchObject(unavailable(new TimeoutError('no connection is free')));
  await expect(running).rejects.toMatchObject(unavailable(new TimeoutError('the database did not answer in time')));
  expect(pools.measure().pool).toMatchObject({ abandoned: 1, errors: { timeout: 1 } });
  expect(await keyed.read(pid, 5000)).toBeGreaterThan(0);
  expect(performance.now() - begun).toBeGreaterThan(sessionSettings.statement_timeout - 100);
  expect(never).not.toHaveBeenCalled();
  expect(pools.measure().pool.abandoned).toBe(0);
  expect(metrics.query.mock.calls).toHaveLength(2);
});

test('a write is rejected at its deadline, and leaves a connection for reads, also if there is one', async () => {
  const { keyed, metrics, pools } = await start(1);
  const running = keyed.write(sleepFor(60), { withinMs: 500, writes: 3 });
  await expect(running).rejects.toMatchObject(unavailable(new TimeoutError('the database did not answer in time')));
  const never = vi.fn();
  await expect(keyed.write(never, { withinMs: 300 })).rejects.toMatchObject(failed);
  expect(await keyed.read(pid, 500)).toBeGreaterThan(0);
  const { pool, failedWrites } = pools.measure();
  expect([pool.abandoned, failedWrites.timeout]).toEqual([1, 4]);
  expect(await keyed.write(pid, { withinMs: 5000 })).toBeGreaterThan(0);
  expect(pools.measure().pool.abandoned).toBe(0);
  expect(never).not.toHaveBeenCalled();
  expect(metrics.query.mock.calls.map(([kind]) => kind)).toEqual(['read', 'write', 'write']);
  expect(metrics.commit.mock.calls).toEqual([[1]]);
});

test('half of the connections write at once; the others are left to reads', async () => {
  const { keyed } = await start(4);
  let [writing, most] = [0, 0];
  const write = () =>
    keyed.write(async (connection) => {
      most = Math.max(most, ++writing);
      await sleepFor(0.2)(connection);
      writing -= 1;
    });
  const writes = Promise.all(Array.from(Array(8), write));
  const begun = performance.now();
  await keyed.read(pid);
  expect(performance.now() - begun).toBeLessThan(200);
  await writes;
  expect(most).toBe(2);
});

test('a write that was lost on its way is let go when the database has no commit that waits', async () => {
  const { keyed, proxy, pools } = await start(4);
  await keyed.write(pid);
  proxy.silence();
  await expect(keyed.write(pid, { withinMs: 300 })).rejects.toMatchObject(failed);
  proxy.restore();
  await keyed.read(pid);
  expect(pools.measure().pool.abandoned).toBe(1);
  await expect.poll(() => pools.measure().pool.abandoned, { timeout: 8000 }).toBe(0);
});

test('nothing of a transaction is committed after its deadline, though no statement takes long', async () => {
  const { keyed, pools, sql } = await start(1);
  await sql`CREATE TABLE step (n integer)`;
  const work = (run: Connection) =>
    run.begin(async () => {
      for (let n = 0; n < 5; n++) {
        await run`INSERT INTO step VALUES (${n})`;
        await sleep(100);
      }
    });
  await expect(keyed.write(work, { withinMs: 250 })).rejects.toMatchObject(failed);
  await vi.waitFor(() => expect(pools.measure().pool.abandoned).toBe(0), { timeout: 2000 });
  expect(await keyed.read((run) => run`SELECT n FROM step`)).toEqual([]);
});

test('work without time left is rejected and never starts', async () => {
  const { keyed, pools } = await start(2);
  // A connection is free.
  await keyed.read(pid);
  const work = vi.fn();
  await expect(keyed.write(work, { withinMs: 0 })).rejects.toMatchObject(failed);
  expect(work).not.toHaveBeenCalled();
  expect(pools.measure().failedWrites.timeout).toBe(1);
});

test('a read whose connection is lost runs once more, and a second time not; a write runs once', async () => {
  const { keyed, pools } = await start(2);
  const dying = vi.fn((connection: Connection) => connection`SELECT pg_terminate_backend(pg_backend_pid())`);
  await expect(keyed.read(dying)).rejects.toMatchObject(failed);
  expect(dying).toHaveBeenCalledTimes(2);
  await expect(keyed.write(dying)).rejects.toMatchObject(failed);
  expect(dying).toHaveBeenCalledTimes(3);
  const once = vi.fn(async (sql: Connection) => {
    if (once.mock.calls.length === 1) await dying(sql);
    return pid(sql);
  });
  expect(await keyed.read(once)).toBeGreaterThan(0);
  expect(pools.measure()).toMatchObject({ pool: { errors: { connection: 4 } }, failedWrites: { connection: 1 } });
});

test('a write whose statement a migration has outdated runs again on a new connection', async () => {
  const { keyed, sql } = await start(1);
  const write = () => keyed.write((sql) => sql`TABLE message`);
  await write();
  await sql`ALTER TABLE message ADD COLUMN later text`;
  onTestFinished(async () => void (await sql`ALTER TABLE message DROP COLUMN later`));
  expect(await write()).toEqual([]);
});

test('work waits for a server that comes back within its deadline, and says at the deadline why it was not reached', async () => {
  const { keyed, proxy } = await start(2);
  proxy.refuse();
  const begun = performance.now();
  const early = keyed.write(pid);
  await sleep(400);
  proxy.restore();
  expect(await early).toBeGreaterThan(0);
  expect(performance.now() - begun).toBeLessThan(1500);
  for (const fault of ['refuse', 'silence'] as const) {
    const down = await start(2);
    down.proxy[fault]();
    await expect(down.keyed.read(pid, 1500)).rejects.toMatchObject(
      unavailable(expect.objectContaining({ message: expect.not.stringContaining('is free') })),
    );
    expect(down.pools.measure().pool.errors.connection).toBeGreaterThan(0);
  }
});

test('while no further connection opens, work goes on with those that are open', async () => {
  const { keyed, proxy } = await start(4);
  await keyed.read(pid);
  proxy.silenceNew();
  const until = performance.now() + 3000;
  let answered = 0;
  const client = async () => {
    for (; performance.now() < until; answered += 1) await keyed.read(pid);
  };
  await Promise.all(Array.from(Array(8), client));
  // If each waited for an attempt to connect, which ends after a second, 24.
  expect(answered).toBeGreaterThan(100);
});

test('while the database refuses connections, one at a time is tried, however many jobs wait', async () => {
  const { keyed, proxy, pools } = await start(4);
  proxy.refuse();
  await expect(keyed.read(pid, 100)).rejects.toMatchObject(failed);
  const before = proxy.accepted();
  const jobs = Array.from(Array(200), () => keyed.read(pid));
  await sleep(1000);
  // Each waits for 25 ms at least.
  expect(proxy.accepted() - before).toBeLessThanOrEqual(40);
  expect(pools.measure().pool.errors.connection).toBeLessThanOrEqual(50);
  proxy.restore();
  await Promise.all(jobs);
});

test('close waits for accepted work, refuses more, and may be called again', async () => {
  const { keyed, pools, sessions } = await start(4);
  const work = keyed.write(sleepFor(0.2));
  const closing = pools.close();
  await expect(keyed.read(pid)).rejects.toMatchObject(unavailable(new Error('the store is closed')));
  await closing;
  await work;
  await pools.close();
  await expect.poll(sessions).toBe(0);
});

test('close waits for work that cannot reach the database, until it is reached or the deadline has passed', async () => {
  for (const comesBack of [true, false]) {
    const { keyed, proxy, pools } = await start(2);
    proxy.refuse();
    const work = keyed.read(pid, 600);
    await sleep(100);
    const before = proxy.accepted();
    const closing = pools.close();
    if (comesBack) proxy.restore();
    await (comesBack ? expect(work).resolves.toBeGreaterThan(0) : expect(work).rejects.toMatchObject(failed));
    await closing;
    // One attempt at a time, as before.
    expect(proxy.accepted() - before).toBeLessThanOrEqual(20);
  }
});

test('a connection to a standby is destroyed: an orderly end has no time-out', async () => {
  const destroy = vi.fn();
  const client = { query: async () => ({ rows: [{ standby: true }] }), connection: { stream: { destroy } } };
  await expect(refuseStandby(client as never)).rejects.toThrow('it is a standby');
  expect(destroy).toHaveBeenCalledOnce();
});
