/** Tests of dividing a limited number of places among holders. */
import { expect, test } from 'vitest';
import { createPlaces, createSeparatePlaces } from '../../../src/core/places.ts';

const takeAll = (take: () => boolean) => {
  let count = 0;
  while (take()) count += 1;
  return count;
};

test('one holder alone may take all places', () => {
  const places = createPlaces<string>(10);
  expect(takeAll(() => places.take('a'))).toBe(10);
  expect(places.taken()).toBe(10);
});

test('if no place is free, others may take their equal share, up to 1.5 times the number of places in all', () => {
  const places = createPlaces<string>(12);
  takeAll(() => places.take('a'));
  expect(takeAll(() => places.take('b'))).toBe(6);
  expect(places.take('a')).toBe(false);
  expect(takeAll(() => places.take('c'))).toBe(1);
});

test('beyond that, each takes a part of what is left until twice the number of places: seven cannot keep others out', () => {
  const places = createPlaces<string>(1000);
  const counts = Array.from({ length: 40 }, (_, index) => takeAll(() => places.take(`holder ${index}`)));
  expect(counts.slice(0, 2)).toEqual([1000, 500]);
  expect(counts[7]).toBeGreaterThanOrEqual(20);
  expect(counts[20]).toBeGreaterThanOrEqual(8);
  expect(places.taken()).toBeLessThanOrEqual(2000);
  expect(counts.toSorted((a, b) => b - a)).toEqual(counts);
});

test('whoever has no place gets one, however many have some, up to three times the number of places', () => {
  const places = createPlaces<number>(100);
  for (let holder = 0; holder < 60; holder++) takeAll(() => places.take(holder));
  const { length } = Array.from({ length: 1000 }).filter((_, index) => places.take(1000 + index));
  expect(length).toBeGreaterThan(80);
  expect(places.taken()).toBe(300);
  expect(places.take(1000)).toBe(false);
});

test('a holder with more than its share gets another place only when places are free', () => {
  const places = createPlaces<string>(4);
  takeAll(() => places.take('a'));
  places.take('b');
  places.give('a');
  expect(places.take('a')).toBe(false);
  places.give('b');
  expect(places.take('a')).toBe(true);
});

test('strangers have places of their own, a quarter of the number', () => {
  const places = createSeparatePlaces(8);
  const of = (holder: string, stranger: boolean) => ({ holder, stranger });
  expect(takeAll(() => places.take(of('a', true)))).toBe(2);
  expect(takeAll(() => places.take(of('b', true)))).toBe(1);
  expect(takeAll(() => places.take(of('a', false)))).toBe(8);
  expect(places.taken()).toBe(11);
  places.give(of('a', true));
  for (let given = 0; given < 8; given++) places.give(of('a', false));
  expect(places.taken()).toBe(2);
});
