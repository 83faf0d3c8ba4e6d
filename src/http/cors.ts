/** CORS: which pages may call the API from a browser (Fetch Standard, section 3.3). */
import cors, { type FastifyCorsOptions } from '@fastify/cors';
import type { FastifyInstance, FastifyRequest } from 'fastify';

const dayS = 24 * 60 * 60;

/**
 * Responds to preflight requests and sets the CORS headers. Credentials are not allowed: pages set the Authorization header themselves. An
 * OPTIONS request without Origin or Access-Control-Request-Method is not a preflight (section 3.2.2) and is routed like any other request.
 */
export async function installCors(app: FastifyInstance, origins: string[]): Promise<void> {
  const options = {
    origin: origins,
    methods: ['GET', 'HEAD', 'POST'],
    allowedHeaders: ['Authorization', 'Content-Type', 'Idempotency-Key', 'If-None-Match'],
    exposedHeaders: [
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
      'X-Request-Id',
    ],
    maxAge: dayS,
  };
  const withoutPreflight = { ...options, preflight: false };
  const isPreflight = ({ headers }: FastifyRequest) =>
    headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
  await app.register(cors, {
    delegator: (request: FastifyRequest, done: (error: null, options: FastifyCorsOptions) => void) =>
      done(null, isPreflight(request) ? options : withoutPreflight),
  });
}
