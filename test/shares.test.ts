import { expect, test } from 'vitest';
import { createShares } from '../src/http/shares.ts';

const takeAll = (take: () => boolean) => {
  let count = 0;
  while (take()) count += 1;
  return count;
};

test('one holder alone may have all places', () => {
  const shares = createShares<string>(10);
  expect(takeAll(() => shares.take('a'))).toBe(10);
  expect(shares.taken()).toBe(10);
});

test('where none is free, others have as many as their equal share, and twice the places at most are taken', () => {
  const shares = createShares<string>(12);
  takeAll(() => shares.take('a'));
  expect(takeAll(() => shares.take('b'))).toBe(6);
  expect(takeAll(() => shares.take('c'))).toBe(4);
  expect(shares.take('a')).toBe(false);
  expect(takeAll(() => shares.take('d'))).toBe(2);
  expect(shares.taken()).toBe(24);
  expect(shares.take('e')).toBe(false);
});

test('who had more than its share waits until places are free', () => {
  const shares = createShares<string>(4);
  takeAll(() => shares.take('a'));
  shares.take('b');
  shares.give('a');
  expect(shares.take('a')).toBe(false);
  shares.give('b');
  expect(shares.take('a')).toBe(true);
});

test('amounts are taken whole or not at all, and everything given back leaves nothing', () => {
  const shares = createShares<number>(100);
  expect([shares.take(1, 60), shares.take(1, 60), shares.take(2, 50), shares.take(2, 1)]).toEqual([
    true,
    false,
    true,
    false,
  ]);
  shares.give(1, 60);
  shares.give(2, 50);
  expect(shares.taken()).toBe(0);
  expect(shares.take(3, 100)).toBe(true);
});
