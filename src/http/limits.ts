/** What a server refuses so that it goes on serving: requests beyond what it can work on, and clients that ask too much. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ApiKey } from '../accounts.ts';
import { ApiError } from '../errors.ts';
import { HttpError } from './errors.ts';
import type { Metrics } from './metrics.ts';

export interface Limits {
  /** Requests worked on, and bodies awaited, at the same time. */
  maxInFlight: number;
  /** Connections at the same time. */
  maxConnections: number;
  /** Requests of one API key in a minute; undefined: any number. */
  requestsPerMinute?: number | undefined;
  /** Refused keys from one address in a minute. */
  refusalsPerMinute: number;
}

const minuteMs = 60_000;

/** A mean, over as long a time: the event loop stands still, and to accept more would only lengthen the queue. */
const maxEventLoopDelayMs = 1000;
const resolutionMs = 10;

/** The first means tell of the start itself, which keeps the event loop busy. */
const settledAfterMs = 3 * maxEventLoopDelayMs;

/** Measures the event loop from when `app` listens on. Returns whether it stood still of late. */
export function watchEventLoop(app: FastifyInstance): () => boolean {
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  let standsStill = false;
  let settledAt = Number.POSITIVE_INFINITY;
  app.addHook('onListen', async () => {
    delay.enable();
    settledAt = performance.now() + settledAfterMs;
  });
  const timer = setInterval(() => {
    // A loop that stood still all the time has measured nothing: its mean is not a number.
    const moves = delay.mean / 1e6 - resolutionMs <= maxEventLoopDelayMs;
    standsStill = performance.now() > settledAt && !moves;
    delay.reset();
  }, maxEventLoopDelayMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    delay.disable();
  });
  return () => standsStill;
}

/** Makes the counters of `app`'s scopes known; they count nothing by themselves. */
export async function installRateLimits(app: FastifyInstance): Promise<void> {
  await app.register(rateLimit, { global: false, enableDraftSpec: true });
}

/** A hook that refuses, with 429, a key that asks more often than it may; undefined where there is no limit. */
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

/** Counts a refused key against its address. Resolves to the failure to send where there were too many, otherwise to undefined. */
export type CountRefusal = (request: FastifyRequest) => Promise<ApiError | undefined>;

export function createRefusalCounter(
  app: FastifyInstance,
  { refusalsPerMinute }: Limits,
  metrics: Metrics,
): CountRefusal {
  const count = app.createRateLimit({ max: refusalsPerMinute, timeWindow: minuteMs });
  return async (request) => {
    const found = await count(request);
    if (found.isAllowed || !found.isExceeded) return undefined;
    metrics.limited('refusals');
    return new HttpError('rate_limited', { 'retry-after': String(found.ttlInSeconds) });
  };
}
