/** Rate limits: of the requests of an account, and of rejected API keys. */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import { limits, minuteMs } from '../core/limits.ts';
import { type HttpError, rateLimited } from './errors.ts';
import { createRecent } from './recent.ts';
import type { Holder } from './shares.ts';

/** Accounts and networks that are counted; beyond that, the one that was counted longest ago is forgotten. */
const maxWindows = 10_000;

/**
 * Returns a function: counts once more for a holder, from its first count on for a minute. It returns how many of `max` are left, for how many seconds,
 * and the error to send if there were too many.
 */
function createWindows(max: number, limit: 'key' | 'refusals', { metrics }: FastifyInstance) {
  const windows = createRecent<Holder, { count: number; endsAt: number }>(maxWindows);
  return (holder: Holder) => {
    const now = performance.now();
    let window = windows.get(holder);
    if (!window || window.endsAt <= now) {
      window = { count: 0, endsAt: now + minuteMs };
      windows.set(holder, window);
    }
    window.count += 1;
    const leftMs = window.endsAt - now;
    const seconds = Math.ceil(leftMs / 1000);
    if (window.count <= max) return { left: max - window.count, seconds };
    metrics.limited(limit);
    return { left: 0, seconds, error: rateLimited(leftMs) };
  };
}

/** Returns a hook that rejects requests of an account over its rate limit with 429; undefined if there is no limit. */
export function createAccountLimit(app: FastifyInstance): onRequestHookHandler | undefined {
  const { requestsPerMinute: max } = app.config;
  if (max === undefined) return undefined;
  const count = createWindows(max, 'key', app);
  return (request, _reply, done) => {
    const { left, seconds, error } = count(request.record.holder);
    request.ownHeaders += `ratelimit-limit: ${max}\r\nratelimit-remaining: ${left}\r\nratelimit-reset: ${seconds}\r\n`;
    done(error);
  };
}

/** Returns a function: counts a rejected API key against the client's network, and returns the error to send if there were too many. */
export function createRefusals(app: FastifyInstance): (request: FastifyRequest) => HttpError | undefined {
  const count = createWindows(limits.rejectedKeys, 'refusals', app);
  return ({ record }) => count(record.network).error;
}
