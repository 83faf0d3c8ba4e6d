/** Unit tests of the PostgreSQL connection pool, with fake connections. */
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import pg from 'pg';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { StandbyError, TimeoutError } from '../../../src/store/postgres/errors.ts';
import { always } from '../../../src/store/postgres/lease.ts';
import { createPool, type PoolOptions } from '../../../src/store/postgres/pool.ts';
import type { Sql } from '../../../src/store/postgres/sql.ts';

interface Fake {
  sql: Sql;
  timeline: number;
  own: boolean;
  destroyed: number;
  destroy: () => void;
  /** How often the pool has abandoned the connection, and how the server then lets it go. */
  abandoned: number;
  abandon: () => Promise<void>;
  letGo: () => void;
  /** Closes the connection as the server would. */
  end: () => void;
}

function poolOf(options: Partial<PoolOptions> = {}) {
  const connections: Fake[] = [];
  const pool = createPool({
    connect: async (onClose) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const made: Fake = {
        ...{ sql: {} as Sql, timeline: 1, own: true, destroyed: 0, destroy: () => void made.destroyed++, end: onClose },
        ...{ abandoned: 0, letGo: resolve },
        abandon() {
          made.abandoned++;
          return promise;
        },
      };
      connections.push(made);
      return made;
    },
    lease: always,
    size: 2,
    maxWaiting: 100,
    ...options,
  });
  return { pool, connections };
}

const serverError = (code: string) => Object.assign(new pg.DatabaseError('told', 0, 'error'), { code });
const lost = new Error('read ECONNRESET');

/** Work that runs until the test resolves or rejects it. */
function held<Result = string>() {
  const end = Promise.withResolvers<Result>();
  const on: Sql[] = [];
  const work = (sql: Sql) => {
    on.push(sql);
    return end.promise;
  };
  return { ...end, work, on };
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
}

const unavailable = (cause: unknown) => ({ code: 'service_unavailable', cause });

/** Lets everything run that waits only for the event loop. */
const turn = () => sleep(5);

describe('connections', () => {
  test('are opened one at a time, only when needed, and reused', async () => {
    let opening = 0;
    const most: number[] = [];
    const connect = vi.fn(async () => {
      most.push(++opening);
      await turn();
      opening -= 1;
      return { sql: {} as Sql, timeline: 1, own: true, abandon: turn, destroy: () => undefined };
    });
    const { pool } = poolOf({ connect, size: 3 });
    expect(await pool.read(async () => 1)).toBe(1);
    expect(await pool.write(async () => 2)).toBe(2);
    expect(connect).toHaveBeenCalledTimes(1);
    const works = Array.from({ length: 7 }, () => held<number>());
    const results = works.map(({ work }) => pool.read(work));
    await vi.waitFor(() => expect(works.filter(({ on }) => on.length > 0)).toHaveLength(3));
    await sleep(30);
    expect(connect).toHaveBeenCalledTimes(3);
    expect(new Set(most)).toEqual(new Set([1]));
    // No two running works share a connection.
    expect(new Set(works.flatMap(({ on }) => on)).size).toBe(3);
    for (const [index, { resolve }] of works.entries()) resolve(index);
    expect(await Promise.all(results)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(connect).toHaveBeenCalledTimes(3);
    await pool.close();
  });

  test('serve requests in the order they came in', async () => {
    const { pool } = poolOf({ size: 1 });
    const served: number[] = [];
    await Promise.all([1, 2, 3, 4].map((each) => pool.read(async () => void served.push(each))));
    expect(served).toEqual([1, 2, 3, 4]);
  });

  test('that the server ends are neither reused nor counted', async () => {
    const { pool, connections } = poolOf({ size: 1 });
    await pool.read(async () => 1);
    const [first] = connections as [Fake];
    first.end();
    first.end();
    expect(first.destroyed).toBe(1);
    const used: Sql[] = [];
    await pool.read(async (sql) => void used.push(sql));
    await pool.read(async (sql) => void used.push(sql));
    expect(used).toEqual([connections[1]?.sql, connections[1]?.sql]);
    expect(used[0]).toBe(connections[1]?.sql);
    expect(connections).toHaveLength(2);
  });

  test('end without affecting one another', async () => {
    const { pool, connections } = poolOf({ size: 2 });
    const both = [held(), held()];
    const results = both.map(({ work }) => pool.read(work));
    await vi.waitFor(() => expect(connections).toHaveLength(2));
    both[0]?.resolve('');
    await turn();
    // The busy connection ends; the idle one stays open.
    connections[1]?.end();
    both[1]?.resolve('');
    await Promise.all(results);
    const used: Sql[] = [];
    await pool.read(async (sql) => void used.push(sql));
    expect(used[0]).toBe(connections[0]?.sql);
    expect(connections).toHaveLength(2);
  });

  test('that cannot be opened are tried again after a random pause', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(1);
    onTestFinished(() => void vi.restoreAllMocks());
    const times: number[] = [];
    const connect = vi.fn(async (onClose: () => void) => {
      times.push(performance.now());
      // The socket closes before the connection is established.
      onClose();
      if (times.length < 3) throw lost;
      return { sql: {} as Sql, timeline: 1, own: true, abandon: turn, destroy: () => undefined };
    });
    const { pool } = poolOf({ connect });
    expect(await pool.read(async () => 1)).toBe(1);
    const [first = 0, second = 0, third = 0] = times;
    expect(Math.min(second - first, third - second)).toBeGreaterThan(73);
    expect(times).toHaveLength(3);
  });
});

describe('work that cannot run at once', () => {
  test('is refused if maxWaiting other works wait, not counting those that run', async () => {
    const { pool, connections } = poolOf({ size: 2, maxWaiting: 3 });
    await pool.read(async () => 1);
    await Promise.all([pool.read(turn), pool.read(turn)]);
    expect(connections).toHaveLength(2);
    const works = Array.from({ length: 5 }, () => held());
    const results = works.map(({ work }) => pool.read(work));
    const cause = new Error('too many requests are waiting for the database');
    await expect(pool.read(held().work)).rejects.toMatchObject(unavailable(cause));
    await expect(pool.write(held().work)).rejects.toMatchObject(unavailable(cause));
    for (const { resolve } of works) resolve('');
    await Promise.all(results);
    expect(await pool.read(async () => 1)).toBe(1);
  });

  test('is refused by the same rule before the first connection is open', async () => {
    const { pool } = poolOf({ maxWaiting: 1 });
    const first = pool.read(async () => 1);
    const cause = new Error('too many requests are waiting for the database');
    await expect(pool.read(async () => 2)).rejects.toMatchObject(unavailable(cause));
    expect(await first).toBe(1);
  });

  test('is abandoned at its deadline; its connection counts until the server lets it go, and its late result is ignored', async () => {
    const { pool, connections } = poolOf({ size: 1 });
    const work = held();
    const begun = performance.now();
    const cause = new TimeoutError('the database did not answer in time');
    await expect(pool.write(work.work, { withinMs: 50 })).rejects.toMatchObject(unavailable(cause));
    expect(performance.now() - begun).toBeGreaterThan(48);
    expect(connections.map(({ abandoned, destroyed }) => [abandoned, destroyed])).toEqual([[1, 0]]);
    expect(pool.measure().pool).toMatchObject({ limit: 1, busy: 1, waiting: 0, abandoned: 1, abandonedTotal: 1 });
    const used: Sql[] = [];
    const next = pool.read(async (sql) => void used.push(sql));
    work.resolve('late');
    await sleep(60);
    expect([connections.length, used.length]).toEqual([1, 0]);
    expect(pool.measure().pool).toMatchObject({ limit: 1, busy: 1, waiting: 1, abandoned: 1 });
    connections[0]?.letGo();
    await next;
    expect(pool.measure().pool).toMatchObject({ waiting: 0, abandoned: 0, abandonedTotal: 1 });
    expect(used[0]).toBe(connections[1]?.sql);
    expect(connections.map(({ destroyed }) => destroyed)).toEqual([1, 0]);
    // The late result is not counted twice either: close() still waits for the work that runs.
    const last = held();
    const result = pool.read(last.work);
    await turn();
    const closing = pool.close();
    await turn();
    expect(connections[1]?.destroyed).toBe(0);
    last.resolve('last');
    await closing;
    expect(await result).toBe('last');
  });

  test('is rejected and never starts if no connection becomes free in time', async () => {
    const { pool, connections } = poolOf({ size: 1 });
    const first = held();
    const done = pool.read(first.work);
    const late = held();
    await expect(pool.read(late.work, { withinMs: 30 })).rejects.toMatchObject(
      unavailable(new TimeoutError('no connection is free')),
    );
    first.resolve('first');
    expect(await done).toBe('first');
    expect(await pool.read(async () => 'next')).toBe('next');
    expect(late.on).toEqual([]);
    expect(connections.map(({ destroyed }) => destroyed)).toEqual([0]);
  });

  test('is forgotten when it is rejected, although no connection is free', async () => {
    const { pool } = poolOf({ connect: () => new Promise(() => undefined), maxWaiting: 10 });
    const works: WeakRef<() => Promise<string>>[] = [];
    for (let round = 0; round < 5; round++) {
      const reads = Array.from({ length: 10 }, () => {
        const work = async () => 'never';
        works.push(new WeakRef(work));
        return pool.read(work, { withinMs: 1 }).catch(() => undefined);
      });
      await Promise.all(reads);
    }
    await turn();
    collectGarbage();
    expect(works.filter((work) => work.deref())).toHaveLength(0);
  });

  test('is rejected and never starts if it has no time left, and counts as a time-out', async () => {
    const { pool, connections } = poolOf();
    await pool.read(turn);
    const late = held();
    await expect(pool.write(late.work, { withinMs: 0, writes: 3 })).rejects.toMatchObject(
      unavailable(new TimeoutError('no connection is free')),
    );
    await turn();
    expect([late.on, connections.map(({ abandoned }) => abandoned)]).toEqual([[], [0]]);
    expect(pool.measure()).toMatchObject({ failedWrites: { timeout: 3 }, pool: { busy: 0, waiting: 0 } });
  });

  test('is rejected with the connection error; no connection is opened once nothing waits', async () => {
    const connect = vi.fn(() => Promise.reject(lost));
    const { pool } = poolOf({ connect });
    await expect(pool.read(held().work, { withinMs: 120 })).rejects.toMatchObject(unavailable(lost));
    await sleep(100);
    const times = connect.mock.calls.length;
    await sleep(160);
    expect(connect).toHaveBeenCalledTimes(times);
  });

  test('keeps its connection open if it ends before its deadline', async () => {
    const { pool, connections } = poolOf();
    await pool.read(async () => 1, { withinMs: 20 });
    await sleep(40);
    expect(connections.map(({ destroyed }) => destroyed)).toEqual([0]);
  });
});

describe('work that fails', () => {
  const failing = (...errors: unknown[]) => {
    const on: Sql[] = [];
    const work = async (sql: Sql) => {
      on.push(sql);
      if (errors.length >= on.length) throw errors[on.length - 1];
      return 'done';
    };
    return { work, on };
  };

  test('with its connection is retried on another if it only reads', async () => {
    const { pool, connections } = poolOf({ size: 1 });
    const { work, on } = failing(lost, serverError('57P01'), serverError('08006'));
    expect(await pool.read(work)).toBe('done');
    expect(on).toHaveLength(4);
    for (const [index, sql] of on.entries()) expect(sql).toBe(connections[index]?.sql);
    expect(connections.map(({ destroyed }) => destroyed)).toEqual([1, 1, 1, 0]);
  });

  test('with its connection is not retried if it writes', async () => {
    const { pool, connections } = poolOf({ size: 1 });
    const { work, on } = failing(lost);
    await expect(pool.write(work)).rejects.toMatchObject(unavailable(lost));
    expect(on).toHaveLength(1);
    expect(connections.map(({ destroyed }) => destroyed)).toEqual([1]);
  });

  test.for(['read', 'write'] as const)('without effect is retried after a pause: %s', async (kind) => {
    vi.spyOn(Math, 'random').mockReturnValue(1);
    onTestFinished(() => void vi.restoreAllMocks());
    const { pool, connections } = poolOf({ size: 1 });
    const { work, on } = failing(serverError('40001'), serverError('40P01'), serverError('25006'));
    const begun = performance.now();
    expect(await pool[kind](work)).toBe('done');
    expect(performance.now() - begun).toBeGreaterThan(3 * 14);
    expect(on).toHaveLength(4);
    // The connection is kept after a conflict (40001, 40P01), and replaced if the server accepts no writes (25006).
    expect(connections.map(({ destroyed }) => destroyed)).toEqual([1, 0]);
  });

  test.for(['read', 'write'] as const)(
    'for another reason is rejected, and its connection is kept: %s',
    async (kind) => {
      const { pool, connections } = poolOf({ size: 1 });
      const { work, on } = failing(serverError('23505'));
      await expect(pool[kind](work)).rejects.toMatchObject({ code: '23505', message: 'told' });
      expect(on).toHaveLength(1);
      await pool[kind](async () => 1);
      expect(connections.map(({ destroyed }) => destroyed)).toEqual([0]);
    },
  );

  test('every time is rejected at its deadline, with its own error', async () => {
    const { pool } = poolOf();
    let times = 0;
    const work = async () => {
      times += 1;
      throw serverError('40001');
    };
    const cause = { message: 'told', code: '40001' };
    await expect(pool.write(work, { withinMs: 100 })).rejects.toMatchObject({ code: 'service_unavailable', cause });
    const then = times;
    expect(then).toBeGreaterThan(2);
    await sleep(50);
    expect(times - then).toBeLessThan(2);
  });

  test('is why a job is rejected whose next attempt is still running at its deadline', async () => {
    const { pool } = poolOf();
    const next = held<never>();
    const attempts = [() => Promise.reject(serverError('25006')), next.work];
    const work = (sql: Sql) => (attempts.shift() as typeof next.work)(sql);
    const cause = { message: 'told', code: '25006' };
    await expect(pool.write(work, { withinMs: 60 })).rejects.toMatchObject({ code: 'service_unavailable', cause });
    expect(next.on).toHaveLength(1);
    const { failedWrites, pool: measures } = pool.measure();
    expect(failedWrites).toMatchObject({ read_only: 1, timeout: 0 });
    expect(measures).toMatchObject({ abandonedTotal: 1, errors: { 25: 1, timeout: 1 } });
  });
});

describe('the measures', () => {
  /** What is not 0. */
  const counted = (counters: Readonly<Record<string, number>>) =>
    Object.fromEntries(Object.entries(counters).filter(([, count]) => count > 0));

  test('count each error by its class, also of work that runs again and succeeds', async () => {
    const { pool, connections } = poolOf({ size: 1 });
    const failures = [lost, serverError('40001'), serverError('57P01'), serverError('P0001')];
    const work = async () => {
      const failure = failures.shift();
      if (failure) throw failure;
    };
    await expect(pool.read(work)).rejects.toMatchObject({ code: 'P0001' });
    await pool.read(work);
    expect(counted(pool.measure().pool.errors)).toEqual({ connection: 1, 40: 1, 57: 1, other: 1 });
    connections.at(-1)?.end();
    expect(pool.measure().pool.errors.connection).toBe(2);
    // Reads only.
    expect(counted(pool.measure().failedWrites)).toEqual({});
    expect(pool.measure().lastFailedWriteAt).toBe(0);
  });

  test('count a lost connection once if it fails its work', async () => {
    const { pool, connections } = poolOf({ size: 1 });
    const work = held();
    const failing = expect(pool.write(work.work)).rejects.toThrow();
    await turn();
    connections[0]?.end();
    work.reject(lost);
    await failing;
    expect(counted(pool.measure().pool.errors)).toEqual({ connection: 1 });
  });

  test('tell a busy pool from a database that cannot be reached, also after it could not be', async () => {
    let reachable = false;
    const connect = async () => {
      if (!reachable) throw lost;
      return { sql: {} as Sql, timeline: 1, own: true, abandon: turn, destroy: () => undefined };
    };
    const { pool } = poolOf({ size: 1, connect });
    await expect(pool.write(held().work, { withinMs: 20 })).rejects.toMatchObject(unavailable(lost));
    reachable = true;
    const first = held();
    const done = pool.read(first.work);
    await vi.waitFor(() => expect(first.on).toHaveLength(1));
    const cause = new TimeoutError('no connection is free');
    await expect(pool.write(held().work, { withinMs: 20 })).rejects.toMatchObject(unavailable(cause));
    first.resolve('');
    await done;
    expect(counted(pool.measure().failedWrites)).toEqual({ connection: 1, timeout: 1 });
  });

  test('count connections that cannot be opened', async () => {
    const { pool } = poolOf({ connect: () => Promise.reject(serverError('53300')) });
    await expect(pool.write(held().work, { withinMs: 20, writes: 3 })).rejects.toMatchObject({
      code: 'service_unavailable',
    });
    expect(pool.measure().pool.errors[53]).toBeGreaterThan(0);
    expect(counted(pool.measure().failedWrites)).toEqual({ connection: 3 });
  });

  test('report commits, and count failed writes by reason', async () => {
    const onCommit = vi.fn();
    const { pool } = poolOf({ onCommit });
    await pool.read(async () => 1);
    await pool.write(async () => 1);
    await pool.write(async () => 1, { writes: 7 });
    const failing = (error: unknown) => () => Promise.reject(error);
    await expect(pool.write(failing(serverError('53100')), { writes: 5 })).rejects.toThrow();
    await expect(pool.write(failing(serverError('23505')))).rejects.toThrow();
    await expect(pool.write(failing(serverError('25006')), { withinMs: 30 })).rejects.toThrow();
    const before = Date.now();
    await expect(pool.write(held().work, { withinMs: 10, writes: 2 })).rejects.toThrow();
    expect(onCommit.mock.calls).toEqual([[1], [7]]);
    const { failedWrites, lastFailedWriteAt } = pool.measure();
    expect(counted(failedWrites)).toEqual({ disk_full: 5, other: 1, read_only: 1, timeout: 2 });
    expect(lastFailedWriteAt).toBeGreaterThanOrEqual(before);
  });

  test('tell of a commit whose wait for the standby was cancelled at its deadline', async () => {
    const { pool } = poolOf();
    const work = held();
    await expect(pool.write(work.work, { withinMs: 10 })).rejects.toThrow();
    expect(counted(pool.measure().pool.errors)).toEqual({ timeout: 1 });
    work.reject(new StandbyError('in doubt'));
    await turn();
    expect(counted(pool.measure().pool.errors)).toEqual({ timeout: 1, standby: 1 });
  });

  test('report the time of each statement on its connection, also of one that is abandoned', async () => {
    const onQuery = vi.fn();
    const { pool } = poolOf({ size: 1, onQuery });
    await Promise.all([pool.read(() => sleep(500)), pool.write(turn)]);
    await expect(pool.write(held().work, { withinMs: 40 })).rejects.toThrow();
    expect(onQuery.mock.calls.map(([kind]) => kind)).toEqual(['read', 'write', 'write']);
    const [first, second, late] = onQuery.mock.calls.map(([, ms]) => ms);
    expect(first).toBeGreaterThan(490);
    // The second waited for the connection of the first.
    expect(second).toBeLessThan(400);
    expect(late).toBeGreaterThan(38);
  });
});

describe('close', () => {
  test('waits for accepted work and refuses more', async () => {
    const { pool, connections } = poolOf({ size: 1 });
    const works = [held(), held()];
    const results = works.map(({ work }) => pool.read(work));
    await turn();
    let closed = false;
    const closing = pool.close().then(() => {
      closed = true;
    });
    const cause = new Error('the store is closed');
    await expect(pool.read(held().work)).rejects.toMatchObject(unavailable(cause));
    await expect(pool.write(held().work)).rejects.toMatchObject(unavailable(cause));
    works[0]?.resolve('1');
    await turn();
    expect([closed, connections[0]?.destroyed]).toEqual([false, 0]);
    works[1]?.resolve('2');
    await closing;
    expect(await Promise.all(results)).toEqual(['1', '2']);
    expect(connections.map(({ destroyed }) => destroyed)).toEqual([1]);
  });

  test('ends all connections and opens none', async () => {
    const { pool, connections } = poolOf({ size: 3 });
    await Promise.all([pool.read(turn), pool.read(turn), pool.read(turn)]);
    await pool.close();
    await turn();
    expect(connections.map(({ destroyed }) => destroyed)).toEqual([1, 1, 1]);
  });

  test('ends a connection that opens only afterwards', async () => {
    const destroy = vi.fn();
    const opened = Promise.withResolvers<void>();
    const connect = async () => {
      await opened.promise;
      return { sql: {} as Sql, timeline: 1, own: true, destroy, abandon: async () => undefined };
    };
    const { pool } = poolOf({ connect });
    await expect(pool.read(turn, { withinMs: 5 })).rejects.toMatchObject({ code: 'service_unavailable' });
    await pool.close();
    opened.resolve();
    await turn();
    expect(destroy).toHaveBeenCalledOnce();
  });

  test('resolves at once if the pool was never used', async () => {
    const { pool, connections } = poolOf();
    await pool.close();
    expect(connections).toEqual([]);
  });
});

describe('a lease', () => {
  test('that does not hold keeps a read waiting until it is renewed, and lets a write start', async () => {
    const renewal = Promise.withResolvers<void>();
    const lease = { ...always, holds: () => false, renewed: () => renewal.promise };
    const { pool } = poolOf({ lease });
    const work = vi.fn(async () => 1);
    const read = pool.read(work);
    expect(await pool.write(async () => 2)).toBe(2);
    expect(work).not.toHaveBeenCalled();
    renewal.resolve();
    expect(await read).toBe(1);
  });

  test('that is not renewed in time rejects the read', async () => {
    const lease = { ...always, holds: () => false, renewed: () => new Promise<void>(() => undefined) };
    const { pool } = poolOf({ lease });
    await expect(pool.read(turn, { withinMs: 20 })).rejects.toMatchObject({ code: 'service_unavailable' });
  });

  test('of others may last: a commit is acknowledged only when it has ended', async () => {
    const end = Promise.withResolvers<void>();
    const { pool } = poolOf({ lease: { ...always, acknowledgeable: () => end.promise } });
    const acknowledged = vi.fn();
    const write = pool.write(async () => 1).then(acknowledged);
    expect(await pool.read(async () => 2)).toBe(2);
    expect(acknowledged).not.toHaveBeenCalled();
    end.resolve();
    await write;
    expect(acknowledged).toHaveBeenCalledWith(1);
  });
});

describe('dropOlder', () => {
  test('ends the connections to primaries of an older timeline, and the work on them', async () => {
    const { pool, connections } = poolOf({ size: 1 });
    const { work, reject } = held();
    const write = pool.write(work);
    await vi.waitFor(() => expect(connections).toHaveLength(1));
    pool.dropOlder(1);
    expect(connections[0]?.destroyed).toBe(0);
    pool.dropOlder(2);
    expect(connections[0]?.destroyed).toBe(1);
    reject(lost);
    await expect(write).rejects.toMatchObject({ code: 'service_unavailable' });
    expect(await pool.read(async () => 1)).toBe(1);
    expect(connections).toHaveLength(2);
  });
});
