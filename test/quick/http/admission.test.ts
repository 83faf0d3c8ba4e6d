/** Tests which requests a turn of the event loop serves. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import { type Admission, createAdmission } from '../../../src/http/connection/admission.ts';

let now = 0;
beforeEach(() => {
  vi.spyOn(performance, 'now').mockImplementation(() => now);
});
afterEach(() => {
  vi.restoreAllMocks();
});

const keys = ['ada', 'ben'];
/** Keys are the names of their accounts; all others are unknown. */
const holderOf = (key = '') => (keys.includes(key) || key.startsWith('many ') ? key : undefined);

/** One turn of requests that take 1 ms each, with these keys. Returns the keys of those that are admitted. */
function turn(admission: Admission, given: (string | undefined)[]) {
  const admitted: (string | undefined)[] = [];
  for (const key of given) {
    admission.rest({});
    if (!admission.admits(key)) continue;
    admitted.push(key);
    now += 1;
  }
  return admitted;
}

const times = (count: number, key?: string) => Array<string | undefined>(count).fill(key);
const countOf = (admitted: unknown[], key: unknown) => admitted.filter((each) => each === key).length;

test('a turn serves requests for its time, and the next one has as much', () => {
  const admission = createAdmission(holderOf);
  for (const _turn of ['first', 'second']) {
    // Four of each account may be late.
    expect(turn(admission, times(60, 'ada'))).toHaveLength(limits.turn + 4);
    expect(admission.hasTime()).toBe(false);
    admission.end();
    expect(admission.hasTime()).toBe(true);
    admission.end();
  }
});

test('requests without a known key have a quarter of the time', () => {
  const admission = createAdmission(holderOf);
  const admitted = turn(admission, [...times(30), ...times(10, 'ada'), ...times(10, 'unknown')]);
  expect(countOf(admitted, undefined)).toBe(Math.ceil(limits.turn / 4));
  expect(countOf(admitted, 'ada')).toBe(10);
  expect(countOf(admitted, 'unknown')).toBe(0);
});

test('an account with a few requests at the end of a turn is served, however many another one has before it', () => {
  const admission = createAdmission(holderOf);
  const admitted = turn(admission, [...times(100, 'ada'), ...times(3, 'ben')]);
  expect(countOf(admitted, 'ben')).toBe(3);
  expect(countOf(admitted, 'ada')).toBe(limits.turn + 4);
});

test('many accounts with a few requests each do not double the time of a turn', () => {
  const admission = createAdmission(holderOf);
  const many = Array.from({ length: 200 }, (_, at) => `many ${at}`);
  expect(turn(admission, [...times(60, 'ada'), ...many]).length).toBeLessThan(1.6 * limits.turn);
});

test('from the 512th request of a turn on, a connection is not read from until the next turn', () => {
  const admission = createAdmission(holderOf);
  const calls: string[] = [];
  const connection = (name: string, reading: boolean) => ({
    _handle: {
      reading,
      readStop: () => calls.push(`${name} stops`),
      readStart: () => calls.push(`${name} starts`),
    },
  });
  for (let request = 1; request < 512; request++) admission.rest(connection('early', true));
  admission.rest(connection('late', true));
  admission.rest(connection('paused', false));
  admission.rest({ _handle: null });
  expect(calls).toEqual(['late stops', 'paused stops']);
  admission.end();
  expect(calls).toEqual(['late stops', 'paused stops', 'late starts']);
});
