/** Tests of dividing a limited number of places among holders. */
import { expect, test } from 'vitest';
import { createParts, createShares } from '../../../src/core/shares.ts';

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

test('if no place is free, others may take their equal share, up to 1.5 times the number of places in all', () => {
  const shares = createShares<string>(12);
  takeAll(() => shares.take('a'));
  expect(takeAll(() => shares.take('b'))).toBe(6);
  expect(shares.take('a')).toBe(false);
  expect(takeAll(() => shares.take('c'))).toBe(1);
});

test('beyond that, each takes a part of what is left until twice the number of places: seven cannot keep others out', () => {
  const shares = createShares<string>(1000);
  const counts = Array.from({ length: 40 }, (_, index) => takeAll(() => shares.take(`holder ${index}`)));
  expect(counts.slice(0, 2)).toEqual([1000, 500]);
  expect(counts[7]).toBeGreaterThanOrEqual(20);
  expect(counts[20]).toBeGreaterThanOrEqual(8);
  expect(shares.taken()).toBeLessThanOrEqual(2000);
  expect(counts.toSorted((a, b) => b - a)).toEqual(counts);
});

test('whoever has no place gets one, however many have some, up to three times the number of places', () => {
  const shares = createShares<number>(100);
  for (let holder = 0; holder < 60; holder++) takeAll(() => shares.take(holder));
  const { length } = Array.from({ length: 1000 }).filter((_, index) => shares.take(1000 + index));
  expect(length).toBeGreaterThan(80);
  expect(shares.taken()).toBe(300);
  expect(shares.take(1000)).toBe(false);
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
