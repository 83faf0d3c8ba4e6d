/** The Fastify type of a scope with TypeBox schemas, and what each route declares for openapi.yaml. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { TSchema } from '@sinclair/typebox';
import type { Scope } from '../core/accounts.ts';
import type { ErrorCode } from '../core/errors.ts';

/** Fastify, with handler types derived from TypeBox schemas. */
export type App = Parameters<FastifyPluginAsyncTypebox>[0];

/** Names of documented response headers; scripts/openapi/words.yaml holds their descriptions. */
type AnswerHeader = 'Link' | 'Location' | 'Idempotent-Replayed';

/** A request and its response. The document shows their parts under one name, by which tools pair them. */
interface Example {
  summary: string;
  /** Values of parameters in the path, the query and headers, by name. */
  parameters?: Record<string, string | number>;
  body?: object;
  /** The body of the response. Absent if the example has the name of an error code. */
  answer?: object;
}

/** How to call another operation with values of this response: a Link Object of OpenAPI. */
interface OperationLink {
  operationId: string;
  description: string;
  parameters: Record<string, string>;
}

export interface Operation {
  operationId: string;
  tags: [string];
  summary: string;
  description: string;
  /** The scope that the API key needs. If undefined, none. */
  scope?: Scope;
  success?: {
    status: number;
    schema: TSchema;
    description: string;
    headers?: AnswerHeader[];
    links?: Record<string, OperationLink>;
  };
  /** The error codes of this operation, in addition to those that every operation can send. */
  errors: ErrorCode[];
  examples?: Record<string, Example>;
  /** When a deprecated operation will be removed. */
  sunset?: Date;
  stability?: 'experimental' | 'beta';
  hideTryItPanel?: boolean;
}

/** The error codes of every operation that takes a body. */
export const bodyErrors: ErrorCode[] = ['invalid_json', 'invalid_body', 'payload_too_large'];
