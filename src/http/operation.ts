/** What an operation says of itself beside its input: all that openapi.yaml tells, and nothing that the server runs on. */
import type { TSchema } from '@sinclair/typebox';
import type { ErrorCode } from '../errors.ts';

/** Names of documented response headers; scripts/openapi.ts holds their descriptions. */
export type AnswerHeader = 'Link' | 'ETag' | 'Location' | 'Idempotent-Replayed';

export interface Operation {
  operationId: string;
  tags: [string];
  summary: string;
  description: string;
  success?: { status: number; schema: TSchema; description: string; headers?: AnswerHeader[] };
  /** The codes that it can send beside those that every operation can. */
  errors: ErrorCode[];
  /** When it will be removed, for a deprecated one. */
  sunset?: Date;
  stability?: 'experimental' | 'beta';
  hideTryItPanel?: boolean;
}

/** The codes of every operation that takes a body. */
export const bodyErrors: ErrorCode[] = ['invalid_parameter', 'invalid_json', 'invalid_body', 'payload_too_large'];

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: Operation;
  }
}
