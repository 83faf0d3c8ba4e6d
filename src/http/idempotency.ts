/** Idempotency-Key: makes a POST safe to send again. */
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import type { ApiKey } from '../accounts.ts';
import type { Retry } from '../idempotency.ts';
import { requirement } from '../schema.ts';

export const IdempotencyHeaders = Type.Object({
  'Idempotency-Key': Type.Optional(
    Type.String({
      ...requirement('be 1 to 255 visible ASCII characters, given once'),
      minLength: 1,
      maxLength: 255,
      pattern: '^[!-~]+$',
      description:
        'Your own name for this creation. The same key with the same body within 24 hours gives the same answer again, with Idempotent-Replayed: true, and adds nothing.',
      examples: ['7d9f0d3a-1f0b-4c56-9f8e-2f1c7c1f0e55'],
    }),
  ),
});

/** The retry that a validated request asks for, or undefined where it asks for none. */
export function retryOf(request: FastifyRequest): Retry | undefined {
  const key = request.headers['idempotency-key'];
  return key === undefined ? undefined : { accountId: (request.apiKey as ApiKey).accountId, key: key as string };
}
