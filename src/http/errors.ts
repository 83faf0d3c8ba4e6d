/** Everything that can go wrong with a request, translated into one Failure and sent in one shape. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type ErrorCode, Failure } from '../errors.ts';
import { standingHeaders } from './answers.ts';
import { type Observe, observeRefusal } from './request-log.ts';

/** Fastify's own error codes that are the client's doing; every other error is ours. */
const frameworkCodes: Record<string, ErrorCode> = {
  FST_ERR_BAD_URL: 'invalid_url',
  FST_ERR_CTP_BODY_TOO_LARGE: 'payload_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'bad_request',
};

export function toFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  const code = frameworkCodes[String((error as Partial<FastifyError>).code)] ?? 'internal_error';
  return new Failure(code, undefined, { cause: error });
}

/** The headers of every failure. Errors are never stored: the next answer may be another one (RFC 9111, section 5.2.2.5). */
export function failureHeaders(failure: Failure, requestId: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-request-id': requestId,
    ...standingHeaders,
    ...failure.headers,
  };
}

/** Answers a request with a failure; those of 5xx are logged with their cause, which the client never sees. */
export function sendFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  // A client that goes away within its body is no fault of ours; nobody reads this answer.
  const failure = request.raw.errored ? new Failure('bad_request', undefined, { cause: error }) : toFailure(error);
  if (failure.status >= 500 && failure.code !== 'not_implemented') {
    request.log.error({ reqId: request.id, err: failure.cause ?? failure }, failure.code);
  }
  // A Buffer, because Fastify would add a charset, which application/json does not define (RFC 8259, section 11).
  void reply
    .code(failure.status)
    .headers(failureHeaders(failure, request.id))
    .send(Buffer.from(JSON.stringify(failure.body())));
}

/** Answers a URL that the router cannot read: no hook, and so no line of the log, follows. */
export function sendFrameworkFailure(observe: Observe) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    observeRefusal(observe, request.id, toFailure(error));
    sendFailure(error, request, reply);
  };
}

/** Error handler and unknown paths of the whole server. */
export function installErrors(app: FastifyInstance): void {
  app.setErrorHandler(sendFailure);
  // Where an OPTIONS is no preflight after all, @fastify/cors hands its own route over to this.
  app.setNotFoundHandler(() => {
    throw new Failure('route_not_found');
  });
  app.addHook('onRequest', (request, _reply, done) => {
    // Here rather than in the handler of the unknown path, which would first judge the body.
    done(request.is404 ? new Failure('route_not_found') : undefined);
  });
}
