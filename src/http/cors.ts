/** CORS: which pages may call the API from a browser (Fetch Standard, section 3.3). */
import cors, { type FastifyCorsOptions } from '@fastify/cors';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { NotFound } from './errors.ts';
import { refuseUnknownOptions } from './not-found.ts';

const dayS = 24 * 60 * 60;

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

/** The CORS headers of a response, as alternating names and values. `origin`: the Origin header of the request, if it was read. */
export type CorsHeaders = (origin?: string) => readonly string[];

/** Credentials are not allowed: pages set the Authorization header themselves. If `origins` is undefined, no response has CORS headers. */
export function createCorsHeaders(origins: string[] | undefined): CorsHeaders {
  const none: readonly string[] = [];
  if (origins === undefined) return () => none;
  const vary = ['vary', 'Origin'];
  const expose = ['access-control-expose-headers', exposedHeaders];
  const allowed = new Map(
    origins.map((origin) => [origin, [...vary, 'access-control-allow-origin', origin, ...expose]]),
  );
  return (origin = '') => allowed.get(origin) ?? vary;
}

/**
 * Responds to preflight requests. An OPTIONS request without Origin or Access-Control-Request-Method is not a preflight (section 3.2.2) and is
 * routed like any other request. The other responses get their CORS headers when their exchange begins: the plugin would come too late for
 * some errors.
 */
export async function installPreflight(app: FastifyInstance, notFound: NotFound): Promise<void> {
  const { corsOrigins: origins } = app.config;
  if (!origins) return;
  refuseUnknownOptions(app, notFound);
  const options = {
    origin: origins,
    methods: ['GET', 'HEAD', 'POST'],
    allowedHeaders: ['Authorization', 'Content-Type', 'Idempotency-Key', 'If-Match', 'If-None-Match'],
    maxAge: dayS,
  };
  const noPreflight = { origin: false };
  const isPreflight = ({ headers }: FastifyRequest) =>
    headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
  await app.register(cors, {
    delegator: (request: FastifyRequest, done: (error: null, options: FastifyCorsOptions) => void) =>
      done(null, isPreflight(request) ? options : noPreflight),
  });
}
