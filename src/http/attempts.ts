/** Limits failed attempts to sign in, of an account and of an address, in all processes that share the store. */
import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../errors.ts';
import { attemptWindowMs, type People } from '../people.ts';
import { createShares } from '../shares.ts';
import { networkOf } from './addresses.ts';
import { HttpError } from './errors.ts';

/** Failures of an account, and of an address, within `attemptWindowMs`. */
const maxFailures = 10;
/** Sign-ups of one address within `attemptWindowMs` that ask the store for a name, taken or not. */
const maxSignUps = 50;
/** Passwords that a process checks or keeps waiting for one address; twice as many if others want places (createPasswords). */
const maxChecked = 10;
/** From the count of an attempt to its outcome: more than ten hashes take on a busy machine. */
const checkMs = 5000;

export interface Attempts {
  /**
   * Runs `check`, which resolves to whether the password is right. Counts a failure for the account's name, known or not, and for the
   * address. Rejects with HttpError `rate_limited` after too many, and with ApiError `service_unavailable` if there would be too many should
   * the attempts that are being checked fail.
   */
  signIn(request: FastifyRequest, name: string, check: () => Promise<boolean>): Promise<boolean>;
  /** Runs `create`. Counts a sign-up for the address unless `create` rejects with `service_unavailable`. Rejects like `signIn`. */
  signUp<Created>(request: FastifyRequest, create: () => Promise<Created>): Promise<Created>;
}

interface Limit {
  subject: Buffer;
  max: number;
}

const subject = (kind: string, value: string) => hash('sha256', `${kind}:${value}`, 'buffer');

/** The recent attempts that this process keeps. They only tell why the store refuses an attempt, and never allow one. */
function createKept(now: () => Date) {
  /** When the attempts of a subject were counted, in milliseconds. */
  const all = new Map<string, number[]>();
  /** For longer than `count` asks for: an attempt may be refused a while after its time. */
  const isKept = (at: number) => at > now().getTime() - 2 * checkMs;

  return {
    /** Attempts of the `checkMs` before `time`. */
    count: ({ subject }: Limit, time: Date) =>
      all.get(subject.toString('hex'))?.filter((at) => at > time.getTime() - checkMs).length ?? 0,

    add(limits: Limit[], at: number): void {
      for (const [key, times] of all) if (!times.some(isKept)) all.delete(key);
      for (const { subject } of limits) {
        const key = subject.toString('hex');
        all.set(key, [...(all.get(key) ?? []).filter(isKept), at]);
      }
    },
  };
}

export function createAttempts(people: People, now: () => Date): Attempts {
  const kept = createKept(now);
  const places = createShares<string>(maxChecked);

  const takeBackOne = (limits: Limit[], at: Date) =>
    people.forgetAttempts(
      limits.map(({ subject }) => ({ subject, all: false })),
      at,
    );

  /** Whether the limits may leave room soon: there are recent attempts that this process does not keep, so that they may be in flight. */
  async function mayMakeRoom(limits: Limit[], at: Date): Promise<boolean> {
    const open = limits.filter((limit) => kept.count(limit, at) < limit.max);
    if (open.length === 0) return false;
    const probe = open.map((limit) => ({ subject: limit.subject, max: kept.count(limit, at) + 1 }));
    const until = await people.countAttempt(probe, at);
    if (until) return until.getTime() - attemptWindowMs > at.getTime() - checkMs;
    await takeBackOne(probe, at);
    return true;
  }

  /** Rejects with the reason why the store did not count an attempt. */
  async function refuse(limits: Limit[], what: string, at: Date): Promise<never> {
    // All limits together first: without attempts in flight, the most frequent case, this is enough.
    for (const some of [limits, ...limits.map((limit) => [limit])]) {
      if (await mayMakeRoom(some, at)) continue;
      const until = await people.countAttempt(some, at);
      if (until === undefined) await takeBackOne(some, at);
      // Others may have taken the room in between.
      else if (!(await mayMakeRoom(some, at))) throw tooMany(what, until);
    }
    throw new ApiError('service_unavailable', 'Other attempts are being checked: try again in a second.');
  }

  function tooMany(what: string, until: Date): HttpError {
    const seconds = Math.max(1, Math.ceil((until.getTime() - now().getTime()) / 1000));
    const minutes = Math.ceil(seconds / 60);
    const wait = minutes === 1 ? 'a minute' : `${minutes} minutes`;
    return new HttpError('rate_limited', { 'retry-after': String(seconds) }, `${what}: try again in ${wait}.`);
  }

  /** Runs `work` if the address has a place for it and the store has counted the attempt. `at`: its time. */
  async function counted<Result>(
    network: string,
    limits: Limit[],
    what: string,
    work: (at: Date) => Promise<Result>,
  ): Promise<Result> {
    const at = now();
    if (await people.countAttempt(limits, at)) await refuse(limits, what, at);
    if (!places.take(network)) {
      await takeBackOne(limits, at);
      throw new ApiError('service_unavailable');
    }
    try {
      return await work(at);
    } finally {
      places.give(network);
    }
  }

  return {
    signIn({ exchange }, name, check) {
      const network = networkOf(exchange.address);
      const account = subject('account', name);
      const address = subject('address', network);
      const limits = [account, address].map((each) => ({ subject: each, max: maxFailures }));
      const what = `Too many failed attempts in ${attemptWindowMs / 60_000} minutes`;
      return counted(network, limits, what, async (at) => {
        const takeBack = (all: boolean) =>
          people.forgetAttempts(
            [
              { subject: account, all },
              { subject: address, all: false },
            ],
            at,
          );
        let right: boolean;
        try {
          right = await check();
        } catch (error) {
          await takeBack(false);
          throw error;
        }
        if (right) await takeBack(true);
        else kept.add(limits, at.getTime());
        return right;
      });
    },

    signUp({ exchange }, create) {
      const network = networkOf(exchange.address);
      const limits = [{ subject: subject('sign-up', network), max: maxSignUps }];
      return counted(network, limits, 'Too many new accounts from this address', async (at) => {
        try {
          const created = await create();
          kept.add(limits, at.getTime());
          return created;
        } catch (error) {
          // A name that is taken counts: otherwise forms could try names, and fill the queue of the hashes, without a limit.
          if (error instanceof ApiError && error.code === 'service_unavailable') await takeBackOne(limits, at);
          else kept.add(limits, at.getTime());
          throw error;
        }
      });
    },
  };
}
