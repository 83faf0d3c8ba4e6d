/** Rate limits: of the requests of an account, and of rejected API keys. */
import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { HttpError } from './http-error.ts';

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

/** Returns a function: counts a rejected API key against the client's network, and resolves to the error to send if there were too many. */
export function createRefusals(app: FastifyInstance): (request: FastifyRequest) => Promise<HttpError | undefined> {
  const { bounds, metrics } = app;
  const count = app.createRateLimit({
    max: bounds.rejectedKeys ?? limits.rejectedKeys,
    timeWindow: minuteMs,
    keyGenerator: ({ record }) => record.network,
  });
  return async (request) => {
    const result = await count(request);
    if (result.isAllowed || !result.isExceeded) return undefined;
    metrics.limited('refusals');
    return new HttpError('rate_limited', { 'retry-after': String(Math.max(1, Math.ceil(result.ttlInSeconds))) });
  };
}
