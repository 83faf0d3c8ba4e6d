/** What a server refuses so that it goes on serving: requests beyond what it can work on, and clients that ask too much. */
import rateLimit from '@fastify/rate-limit';
import underPressure from '@fastify/under-pressure';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ApiKey } from '../accounts.ts';
import { Failure } from '../errors.ts';
import type { Metrics } from './metrics.ts';

export interface Limits {
  /** Requests worked on at the same time. */
  maxInFlight: number;
  /** Requests of one API key in a minute; undefined: any number. */
  requestsPerMinute?: number | undefined;
  /** Refused keys from one address in a minute. */
  refusalsPerMinute: number;
}

const minuteMs = 60_000;

/** A mean, over as long a time: the event loop stands still, and to accept more would only lengthen the queue. */
const maxEventLoopDelayMs = 1000;

/** The first means tell of the start itself, which keeps the event loop busy. */
const settledAfterMs = 3 * maxEventLoopDelayMs;

const tooMany = new Failure('service_unavailable', undefined, { headers: { 'retry-after': '1' } });

/** Sheds load at the door of `app`: 503 with Retry-After. */
export async function installLoadShedding(
  app: FastifyInstance,
  { maxInFlight }: Limits,
  metrics: Metrics,
): Promise<void> {
  let inFlight = 0;
  let settledAt = Number.POSITIVE_INFINITY;
  app.addHook('onListen', async () => {
    settledAt = performance.now() + settledAfterMs;
  });
  await app.register(underPressure, {
    maxEventLoopDelay: maxEventLoopDelayMs,
    sampleInterval: maxEventLoopDelayMs,
    /* v8 ignore next 5 -- the process of the tests would stand still for seconds */
    async pressureHandler() {
      if (performance.now() < settledAt) return;
      metrics.limited('event_loop');
      throw tooMany;
    },
  });
  app.addHook('onRequest', (_request, reply, done) => {
    if (inFlight >= maxInFlight) {
      metrics.limited('in_flight');
      return done(tooMany);
    }
    inFlight += 1;
    // Not onResponse, which a client that goes away does not bring about.
    reply.raw.once('close', () => {
      inFlight -= 1;
    });
    done();
  });
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
      return new Failure('rate_limited');
    },
  });
}

/** Counts a refused key against its address. Resolves to the failure to send where there were too many, otherwise to undefined. */
export type CountRefusal = (request: FastifyRequest) => Promise<Failure | undefined>;

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
    return new Failure('rate_limited', undefined, { headers: { 'retry-after': String(found.ttlInSeconds) } });
  };
}
