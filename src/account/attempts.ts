/** Limits failed attempts to sign in, of an account and of a network, in all processes that share the store. */
import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Attempt, People } from '../core/people.ts';
import { networkOf } from '../http/addresses.ts';
import { HttpError } from '../http/errors.ts';
import type { Hasher, Passwords } from './passwords.ts';

/** A refusal is remembered for this long; then the first request asks the store again: a right password elsewhere may have made room. */
const askAgainMs = 5000;
/** From the count of an attempt to its outcome, on a busy machine. */
const checkMs = 5000;

const dayMs = 24 * 60 * 60 * 1000;

export interface Attempts {
  /**
   * Runs `check`, which resolves to whether the password is right. Counts a failure for the account's name, known or not, and for the network.
   * Rejects with HttpError `rate_limited` after too many, and with ApiError `service_unavailable` if too many are being checked.
   */
  signIn(request: FastifyRequest, name: string, check: (hasher: Hasher) => Promise<boolean>): Promise<boolean>;
  /**
   * Runs `create`. Counts an attempt for the network or, with `link`, for the link, unless `create` rejects with `service_unavailable`. Rejects
   * like `signIn`.
   */
  signUp<Created>(
    request: FastifyRequest,
    create: (hasher: Hasher) => Promise<Created>,
    link?: Buffer,
  ): Promise<Created>;
}

interface Kind {
  /** Begins the sentence of a refusal. */
  what: string;
  /** Whether attempts that succeed are taken back. */
  takenBack: boolean;
}

const subjectOf = (kind: string, value: string) => hash('sha256', `${kind}:${value}`, 'buffer');

export function createAttempts(people: People, passwords: Passwords, now: () => Date): Attempts {
  /** Until when the store refuses. peek() does not renew the entries. */
  const refusals = new LRUCache<string, Date>({ max: limits.rememberedAttempts, ttl: askAgainMs });
  /** When attempts of a subject failed in this process, in milliseconds: the last ones. */
  const failures = new LRUCache<string, number[]>({ max: limits.rememberedAttempts });

  const keyOf = ({ subject }: Pick<Attempt, 'subject'>) => subject.toString('hex');

  const failuresSince = (key: string, from: number) => (failures.peek(key) ?? []).filter((at) => at > from);

  function noteFailure(attempt: Attempt, at: number): void {
    const key = keyOf(attempt);
    // Not those of the future: the clock was set back.
    const before = failuresSince(key, at - limits.attemptWindow).filter((time) => time <= at);
    const times = [...before, at].slice(-attempt.max);
    failures.set(key, times);
    if (times.length === attempt.max) refusals.set(key, new Date((times[0] as number) + limits.attemptWindow));
  }

  /** Costs neither a statement nor a hash. */
  function refuseFromMemory(attempts: Attempt[], what: string): void {
    for (const attempt of attempts) {
      const until = refusals.peek(keyOf(attempt));
      if (until && now() < until) throw tooMany(what, until);
    }
  }

  function tooMany(what: string, until: Date): HttpError {
    const seconds = Math.max(1, Math.ceil((until.getTime() - now().getTime()) / 1000));
    const minutes = Math.ceil(seconds / 60);
    const hours = Math.ceil(minutes / 60);
    const wait = minutes === 1 ? 'a minute' : hours > 1 ? `${hours} hours` : `${minutes} minutes`;
    return new HttpError('rate_limited', { 'retry-after': String(seconds) }, `${what}: try again in ${wait}.`);
  }

  /** Counts the attempt, or rejects. `at`: its time. */
  async function count(attempts: Attempt[], { what, takenBack }: Kind, at: Date): Promise<void> {
    const refusal = await people.countAttempt(attempts, at);
    if (!refusal) return;
    const { until, subject, since } = refusal;
    const { max } = attempts.find((attempt) => attempt.subject.equals(subject)) as Attempt;
    const recent = at.getTime() - checkMs;
    // Other processes may be checking them now, and they may all be right.
    if (takenBack && since.getTime() > recent && failuresSince(keyOf({ subject }), recent).length < max)
      throw new ApiError('service_unavailable', 'Other attempts are being checked: try again in a second.');
    refusals.set(keyOf({ subject }), until);
    throw tooMany(what, until);
  }

  async function takeBack(attempts: Attempt[], at: Date, all?: Attempt): Promise<void> {
    if (all) for (const known of [refusals, failures]) known.delete(keyOf(all));
    await people.forgetAttempts(
      attempts.map((attempt) => ({ subject: attempt.subject, all: attempt === all })),
      at,
    );
  }

  /** Runs `work` in the turn of the network, after the attempt was counted, which it takes back if the service was unavailable. */
  function counted<Result>(
    network: string,
    attempts: Attempt[],
    kind: Kind,
    work: (hasher: Hasher, at: Date) => Promise<Result>,
  ): Promise<Result> {
    refuseFromMemory(attempts, kind.what);
    return passwords.inTurn(network, async (hasher) => {
      refuseFromMemory(attempts, kind.what);
      const at = now();
      await count(attempts, kind, at);
      try {
        return await work(hasher, at);
      } catch (error) {
        if (error instanceof ApiError && error.code === 'service_unavailable') await takeBack(attempts, at);
        throw error;
      }
    });
  }

  return {
    async signIn({ exchange }, name, check) {
      const network = networkOf(exchange.address);
      const account = { subject: subjectOf('account', name), max: limits.failedAttempts };
      const attempts = [account, { subject: subjectOf('address', network), max: limits.failedAttemptsOfNetwork }];
      const what = `Too many failed attempts in ${limits.attemptWindow / 60_000} minutes`;
      return counted(network, attempts, { what, takenBack: true }, async (hasher, at) => {
        if (await check(hasher)) {
          await takeBack(attempts, at, account);
          return true;
        }
        for (const attempt of attempts) noteFailure(attempt, at.getTime());
        return false;
      });
    },

    async signUp({ exchange }, create, link) {
      const network = networkOf(exchange.address);
      const [subject, max] = link
        ? [subjectOf('link', link.toString('hex')), limits.linkUses]
        : [subjectOf('sign-up', network), limits.signUps];
      const what = link ? 'Too many attempts with this link' : 'Too many new accounts from this address';
      return counted(network, [{ subject, max, windowMs: dayMs }], { what, takenBack: false }, create);
    },
  };
}
