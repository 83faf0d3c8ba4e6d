/** The Fastify type of a scope with TypeBox schemas, and what each route declares for openapi.yaml. */
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

/** Fastify, with handler types derived from TypeBox schemas. */
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
  /** The error codes of this operation, in addition to those that every operation can send. */
  errors: ErrorCode[];
  /** When a deprecated operation will be removed. */
  sunset?: Date;
  stability?: 'experimental' | 'beta';
  hideTryItPanel?: boolean;
}

/** The error codes of every operation that takes a body. */
export const bodyErrors: ErrorCode[] = ['invalid_parameter', 'invalid_json', 'invalid_body', 'payload_too_large'];

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: Operation;
  }
}
