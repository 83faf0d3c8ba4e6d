/** What a route is to the framework, and what it declares for openapi.yaml. */
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { TSchema } from '@sinclair/typebox';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify';
import type { ErrorCode } from '../errors.ts';

/** Fastify, with TypeBox schemas as the types of what handlers receive. */
export type App = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

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
