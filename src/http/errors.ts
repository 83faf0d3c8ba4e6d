/** Everything that can go wrong with a request, translated into one ApiError and sent in one shape. */
import type { FastifyBaseLogger, FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, type ErrorCode } from '../errors.ts';
import { respond, standing } from './responses.ts';

/** Fastify's own error codes that are the client's doing; every other error is ours. */
const frameworkCodes: Record<string, ErrorCode> = {
  FST_ERR_BAD_URL: 'invalid_url',
  FST_ERR_CTP_BODY_TOO_LARGE: 'payload_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'bad_request',
};

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const code = frameworkCodes[String((error as Partial<FastifyError>).code)] ?? 'internal_error';
  return new ApiError(code, undefined, { cause: error });
}

/** A failure as it is sent. Headers are names and values in turn. */
export interface RenderedError {
  headers: readonly string[];
  /** Of single bytes. */
  body: string;
}

const known = new WeakMap<ApiError, RenderedError>();

/** Kept with its failure: those that are made once are rendered once. */
export function renderError(failure: ApiError): RenderedError {
  let rendered = known.get(failure);
  if (!rendered) {
    const body = Buffer.from(JSON.stringify(failure.body()));
    // Errors are never stored: the next response may be another one (RFC 9111, section 5.2.2.5).
    const headers = { 'content-type': 'application/json', 'cache-control': 'no-store', ...failure.headers };
    rendered = {
      headers: [...standing, ...Object.entries(headers).flat(), 'content-length', String(body.length)],
      body: body.toString('latin1'),
    };
    known.set(failure, rendered);
  }
  return rendered;
}

/** Answers a request with a failure, whatever was thrown. */
export type SendError = (error: unknown, request: FastifyRequest, reply: FastifyReply) => void;

/** Failures of 5xx are logged with their cause, which the client never sees. */
export function createErrorSender(logger: FastifyBaseLogger): SendError {
  /** An error of ours with its stack, an outage in one line. What was refused because there is too much has the line of its request. */
  function log({ code, cause }: ApiError, reqId: string): void {
    if (code === 'internal_error') logger.error({ reqId, err: cause }, code);
    else if (code === 'service_unavailable' && cause !== undefined) {
      const { code: name, message } = cause as NodeJS.ErrnoException;
      logger.error({ reqId, reason: name === undefined ? message : `${name}: ${message}` }, code);
    }
  }

  return (error, request, reply) => {
    // A client that goes away within its body is no fault of ours; nobody reads this answer.
    const failure = request.raw.errored ? new ApiError('bad_request', undefined, { cause: error }) : toApiError(error);
    if (failure.status >= 500) {
      request.exchange.code = failure.code;
      log(failure, request.id);
    }
    const { headers, body } = renderError(failure);
    respond(reply, failure.status, headers, body);
  };
}

/** Error handler and unknown paths of the whole server. */
export function installErrors(app: FastifyInstance, sendError: SendError): void {
  app.setErrorHandler(sendError);
  // Where an OPTIONS is no preflight after all, @fastify/cors hands its own route over to this.
  app.setNotFoundHandler(() => {
    throw new ApiError('route_not_found');
  });
}
