/** Rate limits, by @fastify/rate-limit: of the requests of an account, of the API keys of a network that are rejected, and of account pages. */
import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { minuteMs } from '../core/limits.ts';
import { rateLimited } from './errors.ts';
import type { Limit } from './metrics.ts';
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

  /** The same without counting. */
  read(key: string | number, done: Parameters<Windows['incr']>[1], windowMs: number) {
    const { begun, current } = this.#windows.peek(key) ?? { begun: 0, current: 0 };
    const leftMs = windowMs - (performance.now() - begun);
    done(null, leftMs > 0 ? { current, ttl: leftMs } : { current: 0, ttl: 0 });
  }

  /** The store of another limit. */
  child() {
    return new Windows();
  }
}

/** In its scope, a route with the hook `rateLimit()` counts its requests for their account, up to RATE_LIMIT. */
export const rateLimits = fp(async (app) => {
  const { config, metrics } = app;
  await app.register(rateLimit, {
    global: false,
    max: config.requestsPerMinute ?? 0,
    timeWindow: minuteMs,
    // Accounts made by open sign-up share one limit for each network: otherwise one person could have a thousand limits.
    keyGenerator: ({ apiKey, session, client }: FastifyRequest) =>
      (apiKey ?? session)?.network ?? apiKey?.accountId ?? session?.account.id ?? client.network,
    enableDraftSpec: true,
    store: Windows,
    errorResponseBuilder: (_request, { ttl }) => rateLimited(ttl),
    onExceeded: () => metrics.limited('key'),
  });
});

/** Returns a function that resolves to what this process has left of RATE_LIMIT for the account of a session. It counts nothing. Undefined without that limit. */
export function createRateReader(app: FastifyInstance) {
  const read = app.createRateLimit();
  return async (request: FastifyRequest) =>
    app.config.requestsPerMinute === undefined ? undefined : read(request, { increment: false });
}

type KeyOf = (request: FastifyRequest) => string | number;

const networkOf: KeyOf = ({ client }) => client.network;

/** Returns a function: counts a request for its key, and rejects with HttpError `rate_limited` if there are more than `max` in a minute. */
function createLimit(app: FastifyInstance, name: Limit, max: number, keyGenerator: KeyOf, message?: string) {
  const count = app.createRateLimit({ max, timeWindow: minuteMs, keyGenerator });
  return async (request: FastifyRequest): Promise<void> => {
    const limit = await count(request);
    if (limit.isAllowed || !limit.isExceeded) return;
    app.metrics.limited(name);
    throw rateLimited(limit.ttl, message);
  };
}

/** Counts a rejected key for its network. */
export const createRejectionLimit = (app: FastifyInstance) =>
  createLimit(app, 'refusals', app.config.limits.rejectedKeys, networkOf);

const tooManyPages = 'You have opened too many pages: try again in a minute.';

/**
 * Counts a request of the account pages for the account that `accountOf` returns, if any, and then for the network. A network's requests with and without
 * a session count apart: whoever has no account cannot keep out a signed-in neighbour.
 */
export function createPageLimit(app: FastifyInstance, accountOf: (request: FastifyRequest) => number | undefined) {
  const { pages, pagesOfNetwork } = app.config.limits;
  const ofAccount = createLimit(app, 'pages', pages, (request) => accountOf(request) ?? 0, tooManyPages);
  const visitorsOf: KeyOf = (request) => `${accountOf(request) !== undefined} ${networkOf(request)}`;
  const ofNetwork = createLimit(app, 'pages', pagesOfNetwork, visitorsOf, tooManyPages);
  return async (request: FastifyRequest): Promise<void> => {
    if (accountOf(request) !== undefined) await ofAccount(request);
    await ofNetwork(request);
  };
}
