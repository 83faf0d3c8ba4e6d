/** Rate limits: of the requests of an account, and of rejected API keys. */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import { limits, minuteMs } from '../core/limits.ts';
import { HttpError } from './http-error.ts';
import { createRecent } from './recent.ts';
import type { Holder } from './shares.ts';

/** Accounts and networks that are counted; beyond that, the one that was counted longest ago is forgotten. */
const maxWindows = 10_000;

/** Returns a function: counts once more for a holder, from its first count on for a minute, and returns the count and the seconds that are left. */
function createWindows(): (holder: Holder) => { count: number; seconds: number } {
  const windows = createRecent<Holder, { count: number; endsAt: number }>(maxWindows);
  return (holder) => {
    const now = performance.now();
    let window = windows.get(holder);
    if (!window || window.endsAt <= now) {
      window = { count: 0, endsAt: now + minuteMs };
      windows.set(holder, window);
    }
    window.count += 1;
    return { count: window.count, seconds: Math.ceil((window.endsAt - now) / 1000) };
  };
}

/** Returns a hook that rejects requests of an account over its rate limit with 429; undefined if there is no limit. */
export function createAccountLimit({ config, metrics }: FastifyInstance): onRequestHookHandler | undefined {
  const { requestsPerMinute: max } = config;
  if (max === undefined) return undefined;
  const countOf = createWindows();
  return (request, _reply, done) => {
    const { count, seconds } = countOf(request.record.holder);
    const left = Math.max(0, max - count);
    request.ownHeaders += `ratelimit-limit: ${max}\r\nratelimit-remaining: ${left}\r\nratelimit-reset: ${seconds}\r\n`;
    if (count <= max) return done();
    metrics.limited('key');
    done(new HttpError('rate_limited', { 'retry-after': String(seconds) }));
  };
}

/** Returns a function: counts a rejected API key against the client's network, and returns the error to send if there were too many. */
export function createRefusals({ metrics }: FastifyInstance): (request: FastifyRequest) => HttpError | undefined {
  const countOf = createWindows();
  return ({ record }) => {
    const { count, seconds } = countOf(record.network);
    if (count <= limits.rejectedKeys) return undefined;
    metrics.limited('refusals');
    return new HttpError('rate_limited', { 'retry-after': String(seconds) });
  };
}
