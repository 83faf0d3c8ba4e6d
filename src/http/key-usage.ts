/** Counts the requests of each API key by outcome and day, in memory, and writes the counts once a minute. docs/decisions/key-usage.md */
import type { FastifyBaseLogger } from 'fastify';
import type { Accounts } from '../core/accounts.ts';
import { type Counts, dayOf, type KeyError, type KeyUse, keptErrors, outcomeOf, outcomes } from '../core/usage.ts';
import type { OnEnd } from './log.ts';

const flushEveryMs = 60_000;

/** How many keys one transaction updates. More would let other writes wait. */
const batchSize = 100;

/** Errors in memory, of all keys: 7 MB. Beyond it, they are only counted until the next write. */
const maxErrors = 10_000;

/** More than the days from 1970 to 2149. */
const maxDays = 2 ** 16;

/** What was counted of a key on one day. */
type Use = KeyUse & Counts & { errors: KeyError[] };

/** `other` is older. */
function addTo(use: Use, other: Use): void {
  for (const outcome of outcomes) use[outcome] += other[outcome];
  use.deprecatedCalls += other.deprecatedCalls;
  use.errors = [...other.errors, ...use.errors].slice(-keptErrors);
}

/** Writes every minute. No request waits for it. */
export function createKeyUsage(accounts: Accounts, logger: FastifyBaseLogger, now: () => Date) {
  /** The uses that are not yet written, by key and day: a request counts for the day of its response. */
  const uses = new Map<number, Use>();
  /** How many errors they have at most. */
  let errors = 0;

  function useOf(id: number, at: Date): Use {
    const place = id * maxDays + dayOf(at.getTime());
    let use = uses.get(place);
    if (!use) {
      const counts = { succeeded: 0, clientErrors: 0, rateLimited: 0, serverErrors: 0, deprecatedCalls: 0 };
      use = { id, lastUsedAt: at, ...counts, errors: [] };
      uses.set(place, use);
    }
    return use;
  }

  async function write(): Promise<void> {
    const all = [...uses.values()];
    uses.clear();
    errors = 0;
    for (let from = 0; from < all.length; from += batchSize) {
      const batch = all.slice(from, from + batchSize);
      try {
        await accounts.recordUses(batch);
      } catch (error) {
        logger.warn({ err: error }, 'could not record the use of API keys; the next attempt is in a minute');
        // The commit may have succeeded. Counting its requests twice is better than losing them.
        for (const use of batch) {
          addTo(useOf(use.id, use.lastUsedAt), use);
          errors += use.errors.length;
        }
      }
    }
  }

  let written = Promise.resolve();
  /** Waits for the flush in progress, which puts back what it could not write. */
  function flush(): Promise<void> {
    written = written.then(write);
    return written;
  }

  const timer = setInterval(flush, flushEveryMs).unref();

  /** Counts a request by its response, if it had a valid key. */
  const count: OnEnd = ({ key, status, isDeprecated, code, method, route, reqId }) => {
    if (key === undefined) return;
    const at = now();
    const use = useOf(key, at);
    use.lastUsedAt = at;
    use[outcomeOf(status)] += 1;
    if (isDeprecated) use.deprecatedCalls += 1;
    if (code === undefined) return;
    if (use.errors.length === keptErrors) use.errors.shift();
    else if (errors >= maxErrors) return;
    else errors += 1;
    // The template, as the document writes it: a path may have anything in it.
    const operation = `${method} ${route?.replace(/:(\w+)/g, '{$1}') ?? '…'}`;
    use.errors.push({ code, at, operation, requestId: reqId });
  };

  return {
    count,
    /** Writes what was counted. */
    close() {
      clearInterval(timer);
      return flush();
    },
  };
}
