/** Tests of how the holders share what is bounded, and of the time that was spent on them. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createShares, type Shares } from '../../../src/http/shares.ts';
import { setLimits } from '../../support/app.ts';

let shares: Shares;
beforeEach(() => {
  vi.useFakeTimers();
  setLimits({ work: 1000, unreadBytes: 1_000_000 });
  shares = createShares(() => {});
});
afterEach(() => {
  shares.close();
  vi.useRealTimers();
});

function takeAll(holder: string): number {
  let count = 0;
  while (shares.take(holder, 'work')) count += 1;
  return count;
}

test('each holder gets at most what is free: half alone, a third of two, and so on, so that some is left for the next', () => {
  expect(['a', 'b', 'c', 'd'].map(takeAll)).toEqual([500, 250, 125, 63]);
  for (let given = 0; given < 500; given++) shares.give('a', 'work');
  expect(takeAll('b')).toBe(156);
  expect(takeAll('e')).toBeGreaterThan(100);
});

test('a large body counts once until the last response that sends it has closed; a small one does not', () => {
  const body = Buffer.alloc(400_000);
  expect(shares.takeUnread('a', Buffer.alloc(65_535))).toBe(false);
  for (const holder of ['a', 'b', 'c']) expect(shares.takeUnread(holder, body)).toBe(true);
  expect(shares.taken().unreadBytes).toBe(400_000);
  const refusal = { code: 'service_unavailable', headers: expect.objectContaining({ connection: 'close' }) };
  expect(() => shares.takeUnread('a', Buffer.alloc(400_000))).toThrow(expect.objectContaining(refusal));
  expect(shares.takeUnread('b', Buffer.alloc(300_000))).toBe(true);
  for (const unread of [700_000, 700_000, 300_000]) {
    shares.giveUnread(body);
    expect(shares.taken().unreadBytes).toBe(unread);
  }
});

test('what a function takes is given back when it throws', async () => {
  const fail = () => {
    throw new Error('x');
  };
  await expect(shares.during('a', 'work', fail)).rejects.toThrow('x');
  expect(shares.taken().work).toBe(0);
});

test('the time that was spent halves every second, and a share with nothing is forgotten', () => {
  shares.of('a').spentMs = 80;
  shares.of('b').spentMs = 80;
  shares.take('b', 'work');
  const before = { a: shares.of('a'), b: shares.of('b') };
  vi.advanceTimersByTime(3000);
  expect(shares.of('a').spentMs).toBe(10);
  vi.advanceTimersByTime(7000);
  expect(shares.of('a')).not.toBe(before.a);
  expect(shares.of('b')).toBe(before.b);
});
