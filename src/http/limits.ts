/** Protects the server from overload: rate limits, and the detection of a blocked event loop. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { networkOf } from './addresses.ts';
import { HttpError } from './errors.ts';
import type { Metrics } from './metrics.ts';

export interface Limits {
  /** Limit of the requests in progress, and separately of the request bodies awaited. */
  maxInFlight: number;
  /** Limit of the open connections. */
  maxConnections: number;
  /** Requests per minute of one account. If undefined, unlimited. */
  requestsPerMinute?: number | undefined;
  /** Rejected API keys per minute from one address. */
  refusalsPerMinute: number;
}

const minuteMs = 60_000;

/** The event loop counts as blocked above this mean delay, measured over an equally long interval. New requests would only lengthen the queue. */
const maxEventLoopDelayMs = limits.eventLoopDelay;
const resolutionMs = 10;

/** The first measurements are ignored: the start itself keeps the event loop busy. */
const settledAfterMs = 3 * maxEventLoopDelayMs;

/** Measures the event loop delay once `app` listens. Returns a function: was the event loop blocked in the last interval? */
export function watchEventLoop(app: FastifyInstance): () => boolean {
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  let blocked = false;
  let settledAt = Number.POSITIVE_INFINITY;
  app.addHook('onListen', async () => {
    delay.enable();
    settledAt = performance.now() + settledAfterMs;
  });
  const timer = setInterval(() => {
    // If the event loop was blocked for the whole interval, there are no samples. The mean is then NaN, and the comparison false.
    const responsive = delay.mean / 1e6 - resolutionMs <= maxEventLoopDelayMs;
    blocked = performance.now() > settledAt && !responsive;
    delay.reset();
  }, maxEventLoopDelayMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    delay.disable();
  });
  return () => blocked;
}

/** Counts per time window, for the rate-limit plugin. Its own store reads the wall clock, and counts wrongly after the clock is set back. */
class Windows {
  readonly #windows = new LRUCache<string, { current: number; endsAt: number }>({ max: limits.rateWindows });

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
export function createAccountLimit(app: FastifyInstance, { requestsPerMinute }: Limits, metrics: Metrics) {
  if (requestsPerMinute === undefined) return undefined;
  return app.rateLimit({
    max: requestsPerMinute,
    timeWindow: minuteMs,
    keyGenerator: ({ exchange }) => String(exchange.holder),
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

export function createRefusals(app: FastifyInstance, { refusalsPerMinute }: Limits, metrics: Metrics): Refusals {
  const count = app.createRateLimit({
    max: refusalsPerMinute,
    timeWindow: minuteMs,
    keyGenerator: ({ exchange }) => networkOf(exchange.address),
  });
  /** Networks with too many rejected keys: until when (performance.now()), and whether one of their keys is being looked up. */
  const over = new LRUCache<string, { until: number; busy: boolean }>({ max: limits.rateWindows });

  function tooMany(seconds: number): HttpError {
    metrics.limited('refusals');
    return new HttpError('rate_limited', { 'retry-after': String(Math.max(1, Math.ceil(seconds))) });
  }

  return {
    async count(request) {
      const result = await count(request);
      if (result.isAllowed || !result.isExceeded) return undefined;
      const network = networkOf(request.exchange.address);
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
