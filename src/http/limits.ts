/** Rate limits: of the requests of an account, and of rejected API keys. */
import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { networkOf } from './addresses.ts';
import { HttpError } from './errors.ts';

const minuteMs = 60_000;

/** Accounts and networks that are counted; beyond that, those that were counted first are forgotten. */
const maxWindows = 10_000;

/** Counts per time window, for the rate-limit plugin. Its own store reads the wall clock, and counts wrongly after the clock is set back. */
class Windows {
  readonly #windows = new LRUCache<string, { current: number; endsAt: number }>({ max: maxWindows });

  incr(key: string, done: (error: null, result: { current: number; ttl: number }) => void, windowMs: number): void {
    const now = performance.now();
    const known = this.#windows.get(key);
    const window = known && known.endsAt > now ? known : { current: 0, endsAt: now + windowMs };
    window.current += 1;
    this.#windows.set(key, window);
    done(null, { current: window.current, ttl: window.endsAt - now });
  }

  child(): Windows {
    return new Windows();
  }
}

/** Registers the rate-limit plugin. By itself it limits no route. */
export async function installRateLimits(app: FastifyInstance): Promise<void> {
  await app.register(rateLimit, { global: false, enableDraftSpec: true, store: Windows });
}

/** Returns a hook that rejects requests of an account over its rate limit with 429; undefined if there is no limit. */
export function createAccountLimit(app: FastifyInstance) {
  const { config, metrics } = app;
  const { requestsPerMinute } = config;
  if (requestsPerMinute === undefined) return undefined;
  return app.rateLimit({
    max: requestsPerMinute,
    timeWindow: minuteMs,
    keyGenerator: ({ record }) => String(record.holder),
    errorResponseBuilder: () => {
      metrics.limited('key');
      return new ApiError('rate_limited');
    },
  });
}

export interface Refusals {
  /** Counts a rejected API key against the client's network. Resolves to the error to send if there were too many, otherwise to undefined. */
  count(request: FastifyRequest): Promise<ApiError | undefined>;
  /**
   * Runs `lookUp`, which asks the store for a key that was not valid lately. If the network has too many rejected keys, only one of its look-ups
   * runs at a time; the others reject with HttpError `rate_limited`.
   */
  slowDown<Result>(network: string, lookUp: () => Promise<Result>): Promise<Result>;
}

export function createRefusals(app: FastifyInstance): Refusals {
  const { bounds, metrics } = app;
  const count = app.createRateLimit({
    max: bounds.rejectedKeys ?? limits.rejectedKeys,
    timeWindow: minuteMs,
    keyGenerator: ({ record }) => networkOf(record.address),
  });
  /** Networks with too many rejected keys: until when (performance.now()), and whether one of their keys is being looked up. */
  const over = new LRUCache<string, { until: number; busy: boolean }>({ max: maxWindows });

  function tooMany(seconds: number): HttpError {
    metrics.limited('refusals');
    return new HttpError('rate_limited', { 'retry-after': String(Math.max(1, Math.ceil(seconds))) });
  }

  return {
    async count(request) {
      const result = await count(request);
      if (result.isAllowed || !result.isExceeded) return undefined;
      const network = networkOf(request.record.address);
      const until = performance.now() + result.ttl;
      over.set(network, { until, busy: over.peek(network)?.busy ?? false });
      return tooMany(result.ttlInSeconds);
    },

    async slowDown(network, lookUp) {
      const known = over.peek(network);
      if (!known) return lookUp();
      const now = performance.now();
      if (known.busy) throw tooMany((known.until - now) / 1000);
      if (known.until <= now) over.delete(network);
      known.busy = true;
      try {
        return await lookUp();
      } finally {
        known.busy = false;
      }
    },
  };
}
