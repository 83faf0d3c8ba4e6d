/** Limits failed attempts to sign in, of an account and of an address, in all processes that share the store. */
import { hash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { attemptWindowMs, type People } from '../people.ts';
import { HttpError } from './errors.ts';

/** Failures of an account, and of an address, within `attemptWindowMs`. */
const maxFailures = 10;
/** Accounts that one address can create within `attemptWindowMs`. */
const maxSignUps = 50;

export interface Attempts {
  /**
   * Runs `check`, which resolves to whether the password is right. Counts a failure for the account's name, known or not, and for the
   * address. Rejects with HttpError `rate_limited` after too many.
   */
  signIn(request: FastifyRequest, name: string, check: () => Promise<boolean>): Promise<boolean>;
  /** Counts a sign-up for the address. Rejects with HttpError `rate_limited` after too many. */
  signUp(request: FastifyRequest): Promise<void>;
}

/**
 * What the attempts from an address are counted for: one client often has a whole /64 network of IPv6 addresses (RFC 6177). Some proxies
 * append the port in X-Forwarded-For.
 */
function networkOf(ip: string): string {
  const address = ip
    .replace(/^\[(.+)\](:\d+)?$/, '$1')
    .replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1')
    .replace(/^::ffff:(?=\d+\.)/i, '');
  if (!isIPv6(address) || address.includes('.')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  if (tail !== undefined) while (groups.length + last.length < 8) groups.push('0');
  return `${groups.concat(last).slice(0, 4).join(':')}::/64`;
}

const subject = (kind: string, value: string) => hash('sha256', `${kind}:${value}`, 'buffer');

export function createAttempts(people: People, now: () => Date): Attempts {
  async function count(subjects: { subject: Buffer; max: number }[], what: string): Promise<void> {
    const until = await people.countAttempt(subjects);
    if (!until) return;
    const seconds = Math.max(1, Math.ceil((until.getTime() - now().getTime()) / 1000));
    const minutes = Math.ceil(seconds / 60);
    const wait = minutes === 1 ? 'a minute' : `${minutes} minutes`;
    throw new HttpError('rate_limited', { 'retry-after': String(seconds) }, `${what}: try again in ${wait}.`);
  }

  return {
    async signIn({ ip }, name, check) {
      const account = subject('account', name);
      const address = subject('address', networkOf(ip));
      const both = [account, address];
      const window = `Too many failed attempts in ${attemptWindowMs / 60_000} minutes`;
      await count(
        both.map((counted) => ({ subject: counted, max: maxFailures })),
        window,
      );
      const takeBack = (all: boolean) =>
        people.forgetAttempts([
          { subject: account, all },
          { subject: address, all: false },
        ]);
      let right: boolean;
      try {
        right = await check();
      } catch (error) {
        await takeBack(false);
        throw error;
      }
      if (right) await takeBack(true);
      return right;
    },

    signUp: ({ ip }) =>
      count(
        [{ subject: subject('sign-up', networkOf(ip)), max: maxSignUps }],
        'Too many new accounts from this address',
      ),
  };
}
