/** The Idempotency-Key header, which makes a POST safe to retry. */
import { Type } from '@sinclair/typebox';
import { requirement } from '../core/schema.ts';

export const IdempotencyHeaders = Type.Object({
  'Idempotency-Key': Type.Optional(
    Type.String({
      ...requirement('be 1 to 255 visible ASCII characters, given once'),
      minLength: 1,
      maxLength: 255,
      pattern: '^[!-~]+$',
      description:
        "A unique value that you choose. Retried creates don't create duplicates: the same key with the same body within 24 hours returns the first response again, with Idempotent-Replayed: true.",
      examples: ['7d9f0d3a-1f0b-4c56-9f8e-2f1c7c1f0e55'],
    }),
  ),
});
