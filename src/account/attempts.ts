/** Limits failed attempts to sign in, of an account and of a network, and sign-ups. Each process counts for itself, and forgets when it ends. */
import type { FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { networkOf } from '../http/addresses.ts';
import { HttpError } from '../http/errors.ts';
import { busy, type Hasher, type Passwords } from './passwords.ts';

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

interface Attempt {
  /** In milliseconds. */
  at: number;
  state: 'running' | 'counted' | 'taken back';
}

/** What may have `max` attempts in `windowMs`. */
interface Subject {
  key: string;
  max: number;
  windowMs: number;
  /** Of all subjects of this kind. Beyond the limit, the one that was asked for longest ago is forgotten. */
  attempts: LRUCache<string, Attempt[]>;
}

function createSubjects(max: number, windowMs: number): (key: string) => Subject {
  const attempts = new LRUCache<string, Attempt[]>({ max: limits.rememberedAttempts });
  return (key) => ({ key, max, windowMs, attempts });
}

function recentOf({ attempts, key, windowMs }: Subject, now: number): Attempt[] {
  // Not those of the future: the clock was set back.
  const isRecent = ({ at, state }: Attempt) => state !== 'taken back' && at > now - windowMs && at <= now;
  return attempts.get(key)?.filter(isRecent) ?? [];
}

/** Rejects if `subjects` have their most counted attempts: until one has left the window of each. */
function refuse(subjects: Subject[], what: string, now: number): void {
  const waitsMs = subjects.map((subject) => {
    const counted = recentOf(subject, now).filter(({ state }) => state === 'counted');
    return counted.length < subject.max ? 0 : (counted[0] as Attempt).at + subject.windowMs - now;
  });
  const seconds = Math.ceil(Math.max(...waitsMs) / 1000);
  if (seconds === 0) return;
  const minutes = Math.ceil(seconds / 60);
  const hours = Math.ceil(minutes / 60);
  const wait = minutes === 1 ? 'a minute' : hours > 1 ? `${hours} hours` : `${minutes} minutes`;
  throw new HttpError('rate_limited', { 'retry-after': String(seconds) }, `${what}: try again in ${wait}.`);
}

/** Reserves an attempt, so that simultaneous ones cannot exceed the limit. */
function reserve(subjects: Subject[], now: number): Attempt {
  if (subjects.some((subject) => recentOf(subject, now).length >= subject.max)) throw busy();
  const attempt: Attempt = { at: now, state: 'running' };
  for (const subject of subjects) subject.attempts.set(subject.key, [...recentOf(subject, now), attempt]);
  return attempt;
}

export function createAttempts(passwords: Passwords, now: () => Date): Attempts {
  // Names that somebody makes up push out no network, and networks no account.
  const accounts = createSubjects(limits.failedAttempts, limits.attemptWindow);
  const networks = createSubjects(limits.failedAttemptsOfNetwork, limits.attemptWindow);
  const signUps = createSubjects(limits.signUps, dayMs);
  const links = createSubjects(limits.linkUses, dayMs);

  /** Runs `work` in the turn of the network. The attempt counts, unless `work` takes it back or the service was unavailable. */
  async function counted<Result>(
    network: string,
    subjects: Subject[],
    what: string,
    work: (hasher: Hasher, attempt: Attempt) => Promise<Result>,
  ): Promise<Result> {
    const at = now().getTime();
    refuse(subjects, what, at);
    const attempt = reserve(subjects, at);
    try {
      return await passwords.inTurn(network, (hasher) => work(hasher, attempt));
    } catch (error) {
      if (error instanceof ApiError && error.code === 'service_unavailable') attempt.state = 'taken back';
      throw error;
    } finally {
      if (attempt.state === 'running') attempt.state = 'counted';
    }
  }

  return {
    async signIn({ exchange }, name, check) {
      const network = networkOf(exchange.address);
      const account = accounts(name);
      const what = `Too many failed attempts in ${limits.attemptWindow / 60_000} minutes`;
      return counted(network, [account, networks(network)], what, async (hasher, attempt) => {
        if (!(await check(hasher))) return false;
        attempt.state = 'taken back';
        account.attempts.delete(name);
        return true;
      });
    },

    async signUp({ exchange }, create, link) {
      const network = networkOf(exchange.address);
      const subject = link ? links(link.toString('hex')) : signUps(network);
      const what = link ? 'Too many attempts with this link' : 'Too many new accounts from this address';
      return counted(network, [subject], what, create);
    },
  };
}
