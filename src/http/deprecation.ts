/** The deprecation of GET /pets/{petId}: its dates, the headers that announce it, and the removal. */
import type { onRequestHookHandler } from 'fastify';
import { ApiError } from '../errors.ts';

const deprecatedSince = new Date('2026-11-20T00:00:00Z');
export const sunset = new Date('2030-12-05T00:00:00Z');

const warningDays = 90;
const dayMs = 24 * 60 * 60 * 1000;

/**
 * The headers Deprecation (RFC 9745: a structured-field date, in seconds) and Sunset (RFC 8594), with the links that both RFCs describe.
 * `base` ends in /v1.
 */
export function deprecationHeaders(base: string): Record<string, string> {
  const origin = base.slice(0, -'/v1'.length);
  return {
    deprecation: `@${deprecatedSince.getTime() / 1000}`,
    sunset: sunset.toUTCString(),
    link: `<${base}/pets>; rel="successor-version", <${origin}/docs#animal-store/tag/pets/getPet>; rel="deprecation"; type="text/html"`,
  };
}

/** Returns a hook that rejects requests with 410 once the operation is removed. */
export function refuseAfterSunset(removed: () => boolean): onRequestHookHandler {
  return (_request, _reply, done) => done(removed() ? new ApiError('operation_removed') : undefined);
}

/** The log message from 90 days before the removal on; undefined before that. */
export function sunsetWarning(now: Date): string | undefined {
  const days = Math.ceil((sunset.getTime() - now.getTime()) / dayMs);
  if (days > warningDays) return undefined;
  const date = sunset.toISOString().slice(0, 10);
  return days > 0
    ? `GET /pets/{petId} will be removed in ${days} days, on ${date}; it returns 410 from then on.`
    : `GET /pets/{petId} was removed on ${date}.`;
}
