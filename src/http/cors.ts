/** CORS: which pages may call the API from a browser (Fetch Standard, section 3.3). Credentials are not allowed: pages set Authorization themselves. */
import fp from 'fastify-plugin';
import type { Headers } from './responses.ts';

const exposedHeaders = [
  'Accept-Encoding',
  'Allow',
  'Deprecation',
  'ETag',
  'Idempotent-Replayed',
  'Link',
  'Location',
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
  'Retry-After',
  'Sunset',
  'WWW-Authenticate',
  'X-Request-Id',
].join(', ');

/** The headers of every response to a page of an origin. */
export type HeadersFor = (origin?: string) => Headers;

/** Returns a function: the CORS headers of a response to a page of `origin`. If `origins` is undefined, no response has any. */
export function createCors(origins: string[] | undefined): HeadersFor {
  if (origins === undefined) return () => ({});
  // As browsers send them: in lower case, without the default port. Of an app's, such as capacitor://localhost, URL would make 'null'.
  const allowed = new Set(origins.map((text) => (/^https?:/i.test(text) ? new URL(text).origin : text.toLowerCase())));
  return (origin = '') => ({
    vary: 'Origin',
    ...(allowed.has(origin) && {
      'access-control-allow-origin': origin,
      'access-control-expose-headers': exposedHeaders,
    }),
  });
}

/** Names of headers, separated by commas. */
const names = /^[\w!#$%&'*+.^`|~-]+(?:[ \t]*,[ \t]*[\w!#$%&'*+.^`|~-]+)*$/;

/** Allows what the page asks for: tracing, for example, adds headers of its own, and there are no cookies to protect. */
function preflightFor(asked = ''): Headers {
  return {
    'access-control-allow-methods': 'GET, HEAD, POST',
    'access-control-allow-headers': names.test(asked)
      ? asked
      : 'Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match',
    // A day.
    'access-control-max-age': '86400',
  };
}

/**
 * Adds the headers to each response, and responds to preflight requests. An OPTIONS request without Origin or Access-Control-Request-Method is not a
 * preflight (section 3.2.2) and is routed like any other request.
 */
export const cors = fp<{ headersFor: HeadersFor }>(async (app, { headersFor }) => {
  if (!app.config.corsOrigins) return;
  app.addHook('onRequest', ({ method, headers }, reply, done) => {
    reply.headers(headersFor(headers.origin));
    const isPreflight = method === 'OPTIONS' && headers.origin && headers['access-control-request-method'];
    if (isPreflight) reply.code(204).headers(preflightFor(headers['access-control-request-headers'])).send();
    else done();
  });
});
