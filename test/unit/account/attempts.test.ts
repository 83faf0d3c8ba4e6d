/** Tests of the limits of attempts, without a hash: windows, what is counted and taken back, and what is forgotten. */
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { createAttempts } from '../../../src/account/attempts.ts';
import type { Hasher } from '../../../src/account/passwords.ts';
import { ApiError } from '../../../src/core/errors.ts';
import type { HttpError } from '../../../src/http/errors.ts';
import { clientAt } from '../../../src/http/networks.ts';

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

const from = (address: string) => ({ client: clientAt(address), raw: {} }) as FastifyRequest;
const addressOf = (number: number) => `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`;

/** Attempts with a clock. Each resolves to its outcome: `right`, `wrong`, `busy`, or the seconds of Retry-After. */
function openAttempts() {
  let time = 0;
  const attempts = createAttempts({ inTurn: async (_network, work) => work({} as Hasher) }, () => time);
  const outcomeOf = (error: HttpError) =>
    error.code === 'service_unavailable' ? 'busy' : Number(error.headers['retry-after']);

  function signIn(name: string, address: string, check: boolean | Promise<boolean> = false, isOwn = false) {
    const checked = attempts.signIn(from(address), name, isOwn, async () => check);
    return checked.then((isRight) => (isRight ? 'right' : 'wrong'), outcomeOf);
  }

  return {
    signIn,
    signUp: (address: string, link?: Buffer, create = async () => {}) =>
      attempts.signUp(from(address), create, link).then(() => 'made', outcomeOf),
    /** Fails `times` times, from another network each. */
    async fail(name: string, times: number) {
      await repeat(times, (number) => signIn(name, addressOf(1000 + number)), 'wrong');
    },
    setTime: (ms: number) => {
      time = ms;
    },
  };
}

/** Makes attempts one after the other, each with this outcome. */
async function repeat(times: number, attempt: (number: number) => Promise<unknown>, outcome: unknown) {
  for (let number = 0; number < times; number++) expect(await attempt(number)).toBe(outcome);
}

test.for<[what: string, each: number, name: (minute: number) => string, address: (number: number) => string]>([
  ['11th failure of a network', 1, (minute) => `p${minute}`, () => '192.0.2.1'],
  ['101st failure of an account', 10, () => 'ada', addressOf],
])('the %s waits until the first leaves the window of 15 minutes', async ([, each, name, address]) => {
  const { signIn, setTime } = openAttempts();
  for (let minute = 0; minute < 10; minute++) {
    setTime(minute * minuteMs);
    await repeat(each, (number) => signIn(name(minute), address(10 * minute + number)), 'wrong');
  }
  expect(await signIn(name(10), address(100), true)).toBe(6 * 60);
  setTime(15 * minuteMs - 1);
  expect(await signIn(name(10), address(100), true)).toBe(1);
  setTime(15 * minuteMs);
  await repeat(each, (number) => signIn(name(10), address(100 + number)), 'wrong');
  expect(await signIn(name(11), address(110))).toBe(60);
});

test('a refused attempt counts neither for the account nor for the network, and waits for the later of the two', async () => {
  const { signIn, fail, setTime } = openAttempts();
  await fail('ada', 100);
  await repeat(20, () => signIn('ada', '192.0.2.1'), 15 * 60);
  setTime(minuteMs);
  await repeat(10, (number) => signIn(`p${number}`, '192.0.2.1'), 'wrong');
  expect(await signIn('ada', '192.0.2.1')).toBe(15 * 60);
  expect(await signIn('ada', '192.0.2.2')).toBe(14 * 60);
});

test('of 20 simultaneous attempts ten are checked, and the others are refused at once', async () => {
  const { signIn } = openAttempts();
  for (const isRight of [true, false]) {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const running = Array.from(Array(10), (_, number) => signIn(`p${number}`, '192.0.2.1', promise));
    for (let number = 10; number < 20; number++) expect(await signIn(`p${number}`, '192.0.2.1', true)).toBe('busy');
    resolve(isRight);
    expect(await Promise.all(running)).toEqual(Array(10).fill(isRight ? 'right' : 'wrong'));
  }
  expect(await signIn('p10', '192.0.2.1', true)).toBe(15 * 60);
});

test('a right password gives back its own attempt, and forgets its failures', async () => {
  const { signIn, fail } = openAttempts();
  await fail('ada', 98);
  await repeat(9, (number) => signIn(`p${number}`, '192.0.2.1'), 'wrong');
  await repeat(3, () => signIn('ada', '192.0.2.1', true), 'right');
  await fail('ada', 99);
  expect(await signIn('ada', '192.0.2.1')).toBe('wrong');
  expect(await signIn('p10', '192.0.2.1', true)).toBe(15 * 60);
  expect(await signIn('ada', '192.0.2.2', true)).toBe(15 * 60);
});

test('failures of others refuse nobody who is signed in; ten of sessions refuse these, and count for all', async () => {
  const { signIn, fail } = openAttempts();
  await fail('ada', 100);
  await fail('bob', 90);
  expect(await signIn('ada', '192.0.2.1', true, true)).toBe('right');
  for (let number = 0; number < 10; number++) {
    expect(await signIn('ada', addressOf(number), false, true)).toBe('wrong');
    expect(await signIn('bob', addressOf(100 + number), false, true)).toBe('wrong');
  }
  expect(await signIn('ada', '192.0.2.1', true, true)).toBe(15 * 60);
  expect(await signIn('bob', '192.0.2.1', true)).toBe(15 * 60);
});

test('what is added beyond the bound is waited for, too', async () => {
  const { signIn, fail, setTime } = openAttempts();
  await fail('ada', 10);
  setTime(5 * minuteMs);
  await fail('ada', 90);
  setTime(10 * minuteMs);
  for (let number = 0; number < 10; number++) expect(await signIn('ada', addressOf(number), false, true)).toBe('wrong');
  // When the first ten leave, a hundred are left.
  expect(await signIn('ada', '192.0.2.1', true)).toBe(10 * 60);
});

test('a failure of a session forgets none that came while its password was checked', async () => {
  const { signIn, fail, setTime } = openAttempts();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const own = signIn('ada', '192.0.2.1', promise, true);
  setTime(1000);
  await fail('ada', 99);
  resolve(false);
  expect(await own).toBe('wrong');
  expect(await signIn('ada', '192.0.2.2', true)).toBe(15 * 60 - 1);
});

test('an attempt that ends in a 503 does not count; one that ends in another error does', async () => {
  const { signIn, signUp } = openAttempts();
  const unavailable = Promise.reject(new ApiError('service_unavailable'));
  await repeat(20, () => signIn('ada', '192.0.2.1', unavailable), 'busy');
  const create = () => unavailable.then(() => {});
  await repeat(60, () => signUp('192.0.2.1', undefined, create), 'busy');
  expect(await signUp('192.0.2.1')).toBe('made');
  const broken = Promise.reject(Object.assign(new Error('broken'), { headers: {} }));
  for (let times = 0; times < 10; times++) expect(await signIn('ada', '192.0.2.1', broken)).toBeNaN();
  expect(await signIn('ada', '192.0.2.1', true)).toBe(15 * 60);
});

test('a network has 50 sign-ups a day, and each link 50 from anywhere', async () => {
  const { signIn, signUp, setTime } = openAttempts();
  const link = Buffer.from('link');
  for (let times = 0; times < 50; times++) {
    expect(await signUp('192.0.2.1')).toBe('made');
    expect(await signUp(addressOf(times), link)).toBe('made');
  }
  expect(await signUp('192.0.2.1')).toBe(dayMs / 1000);
  expect(await signUp('192.0.2.3', link)).toBe(dayMs / 1000);
  expect(await signUp('192.0.2.1', Buffer.from('other link'))).toBe('made');
  expect(await signUp('192.0.2.3')).toBe('made');
  expect(await signIn('ada', '192.0.2.1')).toBe('wrong');
  setTime(dayMs - 1);
  expect(await signUp('192.0.2.1')).toBe(1);
  setTime(dayMs);
  expect(await signUp('192.0.2.1')).toBe('made');
});

test('made-up names push out no network, and an account only after 50,000', async () => {
  const { signIn, fail } = openAttempts();
  await fail('ada', 100);
  for (let number = 0; number < 10; number++) await signIn(`p${number}`, '192.0.2.1');
  const tryNames = async (count: number) => {
    for (let number = 0; number < count; number++) await signIn(`made up ${number}`, addressOf(number % 30_000));
  };
  await tryNames(50_000 - 11);
  expect(await signIn('ada', '192.0.2.2', true)).toBe(15 * 60);
  await tryNames(50_000);
  expect(await signIn('ada', '192.0.2.2', true)).toBe('right');
  expect(await signIn('ben', '192.0.2.1', true)).toBe(15 * 60);
});
