/** Counts the requests of each API key by outcome and day, in memory, and writes the counts once a minute. docs/decisions/key-usage.md */
import { setImmediate } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Accounts } from '../core/accounts.ts';
import { type Counts, dayOf, type KeyUse, outcomeOf, outcomes } from '../core/usage.ts';
import type { OnEnd } from './request-record.ts';

export interface KeyUsage {
  /** Counts a request by its response, if it had a valid key. */
  count: OnEnd;
  /** Writes what was counted. */
  close(): Promise<void>;
}

const flushEveryMs = 60_000;

/** How many keys one transaction updates, before a turn of the event loop. More would let other writes wait. */
const batchSize = 100;

export interface KeyUsageOptions {
  accounts: Accounts;
  logger: FastifyBaseLogger;
  now: () => Date;
}

/** What was counted of a key on one day. */
type Use = KeyUse & Counts;

function newUse(id: number, lastUsedAt: Date): Use {
  const counts = { succeeded: 0, clientErrors: 0, rateLimited: 0, serverErrors: 0, deprecatedCalls: 0 };
  return { id, lastUsedAt, ...counts, lastError: undefined };
}

function addTo(use: Use, other: Use): void {
  for (const outcome of outcomes) use[outcome] += other[outcome];
  use.deprecatedCalls += other.deprecatedCalls;
  if (other.lastUsedAt > use.lastUsedAt) use.lastUsedAt = other.lastUsedAt;
  if (other.lastError && !(use.lastError && use.lastError.at >= other.lastError.at)) use.lastError = other.lastError;
}

/** Writes every minute. No request waits for it. */
export function createKeyUsage({ accounts, logger, now }: KeyUsageOptions): KeyUsage {
  /** The uses that are not yet written: by day, because a request counts for the day of its response, and by key. */
  const days = new Map<number, Map<number, Use>>();

  function useOf(id: number, at: Date): Use {
    const day = dayOf(at.getTime());
    let uses = days.get(day);
    if (!uses) {
      uses = new Map();
      days.set(day, uses);
    }
    let use = uses.get(id);
    if (!use) {
      use = newUse(id, at);
      uses.set(id, use);
    }
    return use;
  }

  async function write(): Promise<void> {
    const all = [...days.values()].flatMap((uses) => [...uses.values()]);
    days.clear();
    for (let from = 0; from < all.length; from += batchSize) {
      if (from > 0) await setImmediate();
      const batch = all.slice(from, from + batchSize);
      try {
        await accounts.recordUses(batch);
      } catch (error) {
        logger.warn({ err: error }, 'could not record the use of API keys; the next attempt is in a minute');
        // The commit may have succeeded. Counting its requests twice is better than losing them.
        for (const use of batch) addTo(useOf(use.id, use.lastUsedAt), use);
      }
    }
  }

  let written = Promise.resolve();
  /** Behind the flush that is under way: it gives back what it could not write. */
  function flush(): Promise<void> {
    written = written.then(write);
    return written;
  }

  const timer = setInterval(flush, flushEveryMs).unref();

  return {
    count({ key, status, isDeprecated, code }) {
      if (key === undefined) return;
      const at = now();
      const use = useOf(key, at);
      use.lastUsedAt = at;
      use[outcomeOf(status)] += 1;
      if (isDeprecated) use.deprecatedCalls += 1;
      if (code !== undefined) use.lastError = { code, at };
    },
    close() {
      clearInterval(timer);
      return flush();
    },
  };
}
