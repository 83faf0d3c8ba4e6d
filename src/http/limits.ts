/** Protects the server from overload: rate limits, and the detection of a blocked event loop. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ApiKey } from '../accounts.ts';
import { ApiError } from '../errors.ts';
import { networkOf } from './addresses.ts';
import { HttpError } from './errors.ts';
import type { Metrics } from './metrics.ts';

export interface Limits {
  /** Limit of the requests in progress, and separately of the request bodies awaited. */
  maxInFlight: number;
  /** Limit of the open connections. */
  maxConnections: number;
  /** Requests per minute of one API key. If undefined, unlimited. */
  requestsPerMinute?: number | undefined;
  /** Rejected API keys per minute from one address. */
  refusalsPerMinute: number;
}

const minuteMs = 60_000;

/** The event loop counts as blocked above this mean delay, measured over an equally long interval. New requests would only lengthen the queue. */
const maxEventLoopDelayMs = 1000;
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

/** Registers the rate-limit plugin. By itself it limits no route. */
export async function installRateLimits(app: FastifyInstance): Promise<void> {
  await app.register(rateLimit, { global: false, enableDraftSpec: true });
}

/** Returns a hook that rejects an API key over its rate limit with 429; undefined if there is no limit. */
export function createKeyLimit(app: FastifyInstance, { requestsPerMinute }: Limits, metrics: Metrics) {
  if (requestsPerMinute === undefined) return undefined;
  return app.rateLimit({
    max: requestsPerMinute,
    timeWindow: minuteMs,
    keyGenerator: (request) => String((request.apiKey as ApiKey).id),
    errorResponseBuilder: () => {
      metrics.limited('key');
      return new ApiError('rate_limited');
    },
  });
}

/** Counts a rejected API key against the client's address. Resolves to the error to send if there were too many, otherwise to undefined. */
export type CountRefusal = (request: FastifyRequest) => Promise<ApiError | undefined>;

export function createRefusalCounter(
  app: FastifyInstance,
  { refusalsPerMinute }: Limits,
  metrics: Metrics,
): CountRefusal {
  const count = app.createRateLimit({
    max: refusalsPerMinute,
    timeWindow: minuteMs,
    keyGenerator: ({ exchange }) => networkOf(exchange.address),
  });
  return async (request) => {
    const result = await count(request);
    if (result.isAllowed || !result.isExceeded) return undefined;
    metrics.limited('refusals');
    return new HttpError('rate_limited', { 'retry-after': String(result.ttlInSeconds) });
  };
}
