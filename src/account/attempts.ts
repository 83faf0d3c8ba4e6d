/** Limits failed attempts to sign in, of an account and of a network, forms of sign-up, and uses of links. Each process counts for itself, and forgets when it ends. */
import type { FastifyRequest } from 'fastify';
import { codeOf } from '../core/errors.ts';
import { dayMs, limits, minuteMs } from '../core/limits.ts';
import { rateLimited } from '../http/errors.ts';
import { createRecent } from '../http/recent.ts';
import { busy } from './line.ts';
import type { Hasher, Passwords } from './passwords.ts';
import { inWords } from './times.ts';

/** For how long a failed attempt to sign in counts. */
const windowOfSignInMs = 15 * minuteMs;

/** How many networks can have their failures for one account before it is refused to all. */
const networksPerAccount = 10;

/** Accounts, networks and links, of each kind, whose attempts are remembered. */
const maxRemembered = 50_000;

interface Attempt {
  /** In milliseconds, of the clock of the limits; -Infinity: taken back. */
  at: number;
  /** Whether its password is being checked. */
  running: boolean;
}

/** Limits each account, network or link to `max` attempts in `windowMs`. Beyond the bound, the one that was asked for longest ago is forgotten. */
function createLimit(max: number, windowMs: number) {
  const known = createRecent<string, Attempt[]>(maxRemembered);
  return (key: string, now: number) => {
    const recent = known.get(key)?.filter(({ at }) => at > now - windowMs) ?? [];
    const failed = recent.filter(({ running }) => !running).sort((one, other) => one.at - other.at);
    return {
      /** Until fewer than `max` failures are in the window; 0 if there are fewer. A failure of a session is added without a look at the bound. */
      waitMs: failed.length < max ? 0 : (failed.at(-max) as Attempt).at + windowMs - now,
      isFull: recent.length >= max,
      add: (attempt: Attempt) => known.set(key, [...recent, attempt]),
      forget: () => known.delete(key),
    };
  };
}

export const tooManyAccounts = 'Too many new accounts from this address';

type Subject = ReturnType<ReturnType<typeof createLimit>>;

/** Rounded up: whoever tries again then is not too early. */
export const tooMany = (what: string, waitMs: number) =>
  rateLimited(waitMs, `${what}: try again ${inWords(Math.ceil(waitMs / minuteMs) * minuteMs)}.`);

/** `now`: by a clock that nobody can set. */
export function createAttempts(passwords: Passwords, now = () => performance.now()) {
  // Names that somebody makes up push out no network, and networks no account.
  const networks = createLimit(limits.failedAttempts, windowOfSignInMs);
  // Higher than that of a network: otherwise a stranger could lock out an account's owner.
  const accounts = createLimit(networksPerAccount * limits.failedAttempts, windowOfSignInMs);
  // Of those who are signed in: a thief of a session may not try more.
  const owners = createLimit(limits.failedAttempts, windowOfSignInMs);
  const signUps = createLimit(limits.signUps, dayMs);
  const links = createLimit(limits.linkUses, dayMs);

  /** Runs `work` in the turn of the network. The attempt counts, unless `work` takes it back or rejects with `service_unavailable`. */
  async function count<Result>(
    { client: { network }, raw: { socket } }: FastifyRequest,
    subjects: Subject[],
    attempt: Attempt,
    what: string,
    work: (hasher: Hasher) => Promise<Result>,
  ): Promise<Result> {
    const waitMs = Math.max(...subjects.map((subject) => subject.waitMs));
    if (waitMs > 0) throw tooMany(what, waitMs);
    if (subjects.some(({ isFull }) => isFull)) throw busy();
    // Before the check: simultaneous attempts cannot exceed the limit.
    for (const { add } of subjects) add(attempt);
    try {
      return await passwords.inTurn(network, work, socket);
    } catch (error) {
      if (codeOf(error) === 'service_unavailable') attempt.at = Number.NEGATIVE_INFINITY;
      throw error;
    } finally {
      attempt.running = false;
    }
  }

  return {
    /**
     * Runs `check`, which resolves to whether the password is right. Counts a failure for the network, and for the account's name, known or not.
     * Failures of others do not refuse whoever is signed in to the account (`isOwn`). Rejects with HttpError `rate_limited` after too many, and with
     * ApiError `service_unavailable` if too many are being checked, or if the client is gone before it is checked.
     */
    async signIn(request: FastifyRequest, name: string, isOwn: boolean, check: (hasher: Hasher) => Promise<boolean>) {
      const at = now();
      const account = (isOwn ? owners : accounts)(name, at);
      const attempt = { at, running: true };
      const what = `Too many failed attempts in ${windowOfSignInMs / minuteMs} minutes`;
      return count(request, [account, networks(request.client.network, at)], attempt, what, async (hasher) => {
        const isRight = await check(hasher);
        if (isRight) {
          attempt.at = Number.NEGATIVE_INFINITY;
          account.forget();
        } else if (isOwn) accounts(name, now()).add(attempt);
        return isRight;
      });
    },

    /** Runs `create`. Counts an attempt for the network or, with `link`, for the link. Rejects like `signIn`. */
    async signUp<Created>(
      request: FastifyRequest,
      create: (hasher: Hasher) => Promise<Created>,
      link?: Buffer,
    ): Promise<Created> {
      const at = now();
      const subject = link ? links(link.toString('hex'), at) : signUps(request.client.network, at);
      const what = link ? 'Too many attempts with this link' : tooManyAccounts;
      return count(request, [subject], { at, running: true }, what, create);
    },
  };
}
