/** Tests of dividing a limited number of places among holders. */
import { expect, test } from 'vitest';
import { createParts, createShares } from '../src/shares.ts';

const takeAll = (take: () => boolean) => {
  let count = 0;
  while (take()) count += 1;
  return count;
};

test('one holder alone may take all places', () => {
  const shares = createShares<string>(10);
  expect(takeAll(() => shares.take('a'))).toBe(10);
  expect(shares.taken()).toBe(10);
});

test('if no place is free, others may take their equal share, up to twice the number of places in all', () => {
  const shares = createShares<string>(12);
  takeAll(() => shares.take('a'));
  expect(takeAll(() => shares.take('b'))).toBe(6);
  expect(takeAll(() => shares.take('c'))).toBe(4);
  expect(shares.take('a')).toBe(false);
  expect(takeAll(() => shares.take('d'))).toBe(2);
  expect(shares.taken()).toBe(24);
  expect(shares.take('e')).toBe(false);
});

test('a holder with more than its share gets another place only when places are free', () => {
  const shares = createShares<string>(4);
  takeAll(() => shares.take('a'));
  shares.take('b');
  shares.give('a');
  expect(shares.take('a')).toBe(false);
  shares.give('b');
  expect(shares.take('a')).toBe(true);
});

test('an amount is taken completely or not at all, and nothing remains when all is given back', () => {
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

test('strangers share a quarter of the places, of their own', () => {
  const parts = createParts(8);
  const of = (holder: string, stranger: boolean) => ({ holder, stranger });
  expect(takeAll(() => parts.take(of('a', true)))).toBe(2);
  expect(takeAll(() => parts.take(of('b', true)))).toBe(1);
  expect(takeAll(() => parts.take(of('a', false)))).toBe(8);
  expect(parts.taken()).toBe(11);
  parts.give(of('a', true), 2);
  parts.give(of('a', false), 8);
  expect(parts.taken()).toBe(1);
});
