/** Rate limits, by @fastify/rate-limit: of the requests of an account, and of the API keys of a network that are rejected. */
import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { limits, minuteMs } from '../core/limits.ts';
import { rateLimited } from './errors.ts';
import { createRecent } from './recent.ts';

/** Accounts or networks whose requests are counted at most, as in the plugin's own store. */
const maxCounted = 5000;

/**
 * The plugin's own store compares times of the wall clock: after that was set back by an hour, a window would last for an hour more. This one is the same by
 * the monotonic clock.
 */
class Windows {
  readonly #windows = createRecent<string | number, { begun: number; current: number }>(maxCounted);

  incr(key: string | number, done: (error: null, window: { current: number; ttl: number }) => void, windowMs: number) {
    const now = performance.now();
    let window = this.#windows.get(key);
    if (!window || now - window.begun >= windowMs) {
      window = { begun: now, current: 0 };
      this.#windows.set(key, window);
    }
    window.current += 1;
    done(null, { current: window.current, ttl: windowMs - (now - window.begun) });
  }

  /** The store of another limit. */
  child() {
    return new Windows();
  }
}

/** Every route in the scope counts against its account if RATE_LIMIT is set. */
export const rateLimits = fp(async (app) => {
  const { config, metrics } = app;
  await app.register(rateLimit, {
    global: false,
    max: config.requestsPerMinute ?? 0,
    timeWindow: minuteMs,
    // Accounts made by open sign-up share one limit for each network: otherwise one person could have a thousand limits.
    keyGenerator: ({ apiKey, client }: FastifyRequest) => apiKey?.network ?? apiKey?.accountId ?? client.network,
    enableDraftSpec: true,
    store: Windows,
    errorResponseBuilder: (_request, { ttl }) => rateLimited(ttl),
    onExceeded: () => metrics.limited('key'),
  });
});

/** Returns a function: counts a rejected key, and rejects with HttpError `rate_limited` if its network has sent too many. */
export function createRejectionLimit(app: FastifyInstance): (request: FastifyRequest) => Promise<void> {
  const count = app.createRateLimit({
    max: limits.rejectedKeys,
    timeWindow: minuteMs,
    keyGenerator: ({ client }: FastifyRequest) => client.network,
  });
  return async (request) => {
    const limit = await count(request);
    if (limit.isAllowed || !limit.isExceeded) return;
    app.metrics.limited('refusals');
    throw rateLimited(limit.ttl);
  };
}
