/** Unit tests of the PostgreSQL writer: batches, deadlines and failed writes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Retry } from '../../../src/core/idempotency.ts';
import { limits } from '../../../src/core/limits.ts';
import type { NewPet } from '../../../src/core/pets.ts';
import { startAdder } from '../../../src/store/postgres/pets.ts';
import type { Pool } from '../../../src/store/postgres/pool.ts';
import type { Sql } from '../../../src/store/postgres/sql.ts';

interface Batch {
  /** The arguments of add_pets(). */
  given: unknown[];
  names: string[];
  withinMs: number;
  /** How many writes the pool counts. */
  writes: number;
  /** Completes the batch: each addition gets the next id and this outcome. */
  answer: (outcome?: string) => void;
  fail: (error: Error) => void;
}

/** An adder on a fake database, which responds when the test says so. */
function adderOf() {
  const batches: Batch[] = [];
  let lastId = 0;
  const sql = (_strings: unknown, ...given: unknown[]) => given;
  const pool = {
    async write(work: (sql: Sql) => Promise<unknown>, { withinMs, writes }: { withinMs: number; writes: number }) {
      const given = (await work(sql as never)) as unknown[];
      const names = String(given[0]).slice(2, -2).split('","');
      const { promise, resolve, reject } = Promise.withResolvers<unknown>();
      const answer = (outcome = 'added') => resolve(names.map(() => ({ outcome, id: String(++lastId) })));
      batches.push({ given, names, withinMs, writes, answer, fail: reject });
      return promise;
    },
  };
  const adder = startAdder(pool as never as Pool);
  const addOf = (pet: NewPet, retry: Retry | undefined, at: number, keyId?: number) =>
    adder.add({ pet, retry, keyId, at });
  const add = (name: string, key?: string) =>
    addOf({ name, categoryId: 1n, status: 'sold' }, key === undefined ? undefined : { accountId: 1, key }, 0);
  return { adder, add, addOf, batches };
}

const turn = () => sleep(5);

test('one batch runs at a time, and additions that arrive meanwhile form the next', async () => {
  const { adder, add, batches } = adderOf();
  const first = [add('a'), add('b')];
  expect(batches).toEqual([]);
  expect(adder.waiting()).toBe(2);
  await turn();
  const then = [add('c')];
  await turn();
  then.push(add('d'));
  await turn();
  expect(batches.map(({ names }) => names)).toEqual([['a', 'b']]);
  expect(adder.waiting()).toBe(2);
  batches[0]?.answer();
  expect((await Promise.all(first)).map((each) => 'id' in each && each.id)).toEqual([1n, 2n]);
  expect(await first[1]).toEqual({
    outcome: 'added',
    id: 2n,
    pet: '{"id":2,"name":"b","categoryId":1,"status":"sold"}',
  });
  await turn();
  expect([batches[1]?.names, adder.waiting()]).toEqual([['c', 'd'], 0]);
  batches[1]?.answer();
  expect(await then[1]).toMatchObject({ id: 4n });
  await turn();
  expect(batches.map(({ writes }) => writes)).toEqual([2, 2]);
});

test('a batch passes every value of its additions, and each addition gets its outcome', async () => {
  const { addOf, batches } = adderOf();
  const first = addOf({ name: 'a', categoryId: -(2n ** 63n), status: 'sold' }, { accountId: 3, key: 'k' }, 5, 8);
  const second = addOf({ name: 'b', categoryId: 2n, status: 'pending' }, undefined, 6);
  await turn();
  expect(batches[0]?.given).toEqual([
    '{"a","b"}',
    '{-9223372036854775808,2}',
    '{"sold","pending"}',
    '{3,NULL}',
    '{"k",NULL}',
    '{5,6}',
    24 * 60 * 60 * 1000,
    '{8,NULL}',
  ]);
  batches[0]?.answer('replayed');
  expect(await first).toMatchObject({ outcome: 'replayed', id: 1n });
  expect(await second).toMatchObject({ outcome: 'replayed', id: 2n });
  const third = addOf({ name: 'c', categoryId: 1n, status: 'sold' }, { accountId: 3, key: 'k' }, 7);
  await turn();
  batches[1]?.answer('reused');
  expect(await third).toEqual({ outcome: 'reused' });
});

test('an addition whose key is already in the batch waits for the next; the others stay together', async () => {
  const { add, batches } = adderOf();
  const all = [add('a', 'k'), add('b'), add('c'), add('d', 'l'), add('e', 'k'), add('f', 'l'), add('g', 'k')];
  for (let index = 0; index < 3; index++) {
    await turn();
    batches[index]?.answer();
  }
  await Promise.all(all);
  expect(batches.map(({ names }) => names.join(''))).toEqual(['abcd', 'ef', 'g']);
});

test('a batch has the time that its first addition has left', async () => {
  const { add, batches } = adderOf();
  const all = [add('a')];
  await turn();
  all.push(add('b'));
  await sleep(300);
  all.push(add('c'));
  batches[0]?.answer();
  await turn();
  expect(batches[0]?.withinMs).toBeGreaterThan(0);
  expect(batches[0]?.withinMs).toBeLessThanOrEqual(limits.statement);
  expect(batches[1]?.names).toEqual(['b', 'c']);
  expect(batches[1]?.withinMs).toBeLessThanOrEqual(limits.statement - 295);
  expect(batches[1]?.withinMs).toBeGreaterThan(0);
  batches[1]?.answer();
  await Promise.all(all);
});

test('additions that have no time left make a batch of their own, without time', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { add, batches } = adderOf();
  const all = [add('a')];
  await turn();
  all.push(add('b'), add('c'));
  vi.advanceTimersByTime(limits.statement / 2);
  all.push(add('d'));
  vi.advanceTimersByTime(limits.statement / 2);
  batches[0]?.answer();
  await turn();
  batches[1]?.answer();
  await turn();
  batches[2]?.answer();
  await Promise.all(all);
  expect(batches.map(({ names }) => names.join(''))).toEqual(['a', 'bc', 'd']);
  expect(batches[1]?.withinMs).toBe(0);
  expect(batches[2]?.withinMs).toBeGreaterThan(0);
});

test('a failed batch rejects all of its additions and no others', async () => {
  const { add, batches } = adderOf();
  const first = [add('a'), add('b')];
  const outcomes = Promise.allSettled(first);
  await turn();
  const then = add('c');
  const reason = new Error('lost');
  batches[0]?.fail(reason);
  expect(await outcomes).toEqual([
    { status: 'rejected', reason },
    { status: 'rejected', reason },
  ]);
  await turn();
  batches[1]?.answer();
  expect(await then).toMatchObject({ id: 1n });
});

test('at most 10,000 additions wait, and at most 500 share a batch', async () => {
  const { adder, add, batches } = adderOf();
  const all = Array.from({ length: 10_000 }, (_, index) => add(`n${index}`));
  const cause = new Error('too many writes are waiting');
  await expect(add('one more')).rejects.toMatchObject({ code: 'service_unavailable', cause });
  await turn();
  expect([batches[0]?.names.length, adder.waiting()]).toEqual([500, 9500]);
  all.push(add('there is room again'));
  while (adder.waiting() > 0) {
    batches.at(-1)?.answer();
    await turn();
  }
  batches.at(-1)?.answer();
  await Promise.all(all);
  expect(batches.map(({ names }) => names.length)).toEqual([...Array(20).fill(500), 1]);
});

test('close waits for queued and running additions', async () => {
  const { adder, add, batches } = adderOf();
  await adder.close();
  const all = [add('a')];
  let closed = false;
  const closing = adder.close().then(() => {
    closed = true;
  });
  await turn();
  expect([closed, batches.length]).toEqual([false, 1]);
  batches[0]?.answer();
  await Promise.all([...all, closing]);

  const last = add('b');
  await turn();
  expect(adder.waiting()).toBe(0);
  let ended = false;
  const ending = adder.close().then(() => {
    ended = true;
  });
  await turn();
  expect(ended).toBe(false);
  batches[1]?.answer();
  await Promise.all([last, ending]);
});
