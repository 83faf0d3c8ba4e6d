/** Which pages may call the interface from a browser (Fetch Standard, section 3.3). */
import cors from '@fastify/cors';
import type { FastifyInstance } from 'fastify';

const dayS = 24 * 60 * 60;

/** Answers preflights and names the origin; keys go in a header that pages set themselves, so that there are no credentials. */
export async function installCors(app: FastifyInstance, origins: string[]): Promise<void> {
  await app.register(cors, {
    origin: origins,
    methods: ['GET', 'HEAD', 'POST'],
    allowedHeaders: ['Authorization', 'Content-Type', 'Idempotency-Key', 'If-None-Match'],
    exposedHeaders: [
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
    strictPreflight: false,
  });
}
