/** CORS: which pages may call the API from a browser (Fetch Standard, section 3.3). */
import type { FastifyInstance } from 'fastify';
import { linesOf, varyOrigin } from './head.ts';
import { respond, standingHeaders } from './responses.ts';

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

/** The lines of the CORS headers of a response. `origin`: the Origin header of the request, if it was read. */
export type CorsLines = (origin?: string) => string;

/** Credentials are not allowed: pages set the Authorization header themselves. If `origins` is undefined, no response has CORS headers. */
export function createCorsLines(origins: string[] | undefined): CorsLines {
  if (origins === undefined) return () => '';
  const linesFor = (origin: string) =>
    varyOrigin + linesOf({ 'access-control-allow-origin': origin, 'access-control-expose-headers': exposedHeaders });
  // As browsers send them: in lower case, without the default port.
  const allowed = new Map(origins.map((given) => new URL(given).origin).map((origin) => [origin, linesFor(origin)]));
  return (origin = '') => allowed.get(origin) ?? varyOrigin;
}

const preflight = linesOf({
  ...standingHeaders,
  'access-control-allow-methods': 'GET, HEAD, POST',
  'access-control-allow-headers': 'Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match',
  // A day.
  'access-control-max-age': '86400',
});

/**
 * Responds to preflight requests. An OPTIONS request without Origin or Access-Control-Request-Method is not a preflight (section 3.2.2) and is
 * routed like any other request.
 */
export function installPreflight(app: FastifyInstance): void {
  if (!app.config.corsOrigins) return;
  app.addHook('onRequest', (request, reply, done) => {
    const { method, headers } = request;
    const isPreflight = method === 'OPTIONS' && headers.origin && headers['access-control-request-method'];
    if (!isPreflight) return done();
    respond(reply, 204, preflight, '');
  });
}
