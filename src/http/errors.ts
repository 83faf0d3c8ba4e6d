/** Maps errors to HTTP: the headers and the body of every error response, and how it is sent. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { ApiError, bodyTooLarge, codeOf, type ErrorCode } from '../core/errors.ts';
import { linesOf } from './head.ts';
import type { RequestRecord } from './request-record.ts';
import { respond, standingHeaders } from './responses.ts';

/** An ApiError whose response has additional headers. */
export class HttpError extends ApiError {
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, headers: Record<string, string>, message?: string) {
    super(code, message);
    this.headers = headers;
  }
}

/** 429 with the time to wait, in whole seconds and at least one: the wait may have ended since it was computed. */
export const rateLimited = (waitMs: number, message?: string) =>
  new HttpError('rate_limited', { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1000))) }, message);

/** Clients may retry after one second. */
const retrySoon = { 'retry-after': '1' };

/** The additional headers of an error. */
export function headersOf(error: ApiError): Readonly<Record<string, string>> {
  if (error instanceof HttpError) return error.headers;
  return error.code === 'service_unavailable' ? retrySoon : {};
}

/** Fastify's codes of the errors that clients cause. All other errors become `internal_error`. */
const frameworkCodes: Record<string, ErrorCode> = {
  FST_ERR_BAD_URL: 'invalid_url',
  FST_ERR_CTP_BODY_TOO_LARGE: 'payload_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
};

/**
 * Turns any thrown value into an ApiError: by Fastify's code if `frameworkCodes` has it, otherwise `internal_error`. `cause` is the original.
 * Without `request`, the limit of a body is that of JSON.
 */
export function toApiError(error: unknown, request?: FastifyRequest): ApiError {
  if (error instanceof ApiError) return error;
  const code = frameworkCodes[codeOf(error)] ?? 'internal_error';
  const message = code === 'payload_too_large' && request ? bodyTooLarge(request.routeOptions.bodyLimit) : undefined;
  return new ApiError(code, message, { cause: error });
}

const rendered = Symbol('rendered');

/**
 * Renders each error object only once: some are created at start-up and sent many times. The error itself keeps it: of a WeakMap, V8 would move
 * each entry to the old objects.
 */
export function renderError(error: ApiError & { [rendered]?: ReturnType<typeof render> }) {
  error[rendered] ??= render(error);
  return error[rendered];
}

/** An error response, ready to send: the lines of its headers, its body with one character per byte (latin1), and whether the connection must close. */
function render(error: ApiError) {
  const { code, message, status } = error;
  const body = Buffer.from(JSON.stringify({ code, message, status }));
  // Error responses must not be stored: the next response may differ (RFC 9111, section 5.2.2.5).
  const { connection, ...more } = headersOf(error);
  const own = { 'content-type': 'application/json', 'cache-control': 'no-store', ...more };
  const lines = linesOf({ ...standingHeaders, ...own, 'content-length': String(body.length) });
  return { status, lines, body: body.toString('latin1'), closes: connection === 'close' };
}

/**
 * Logs the cause of a 5xx error, which the client never sees: a bug with its stack trace, an outage as one line. Requests rejected for overload have
 * only their request line.
 */
export function logError(
  { code, cause }: ApiError,
  { reqId }: Pick<RequestRecord, 'reqId'>,
  logger: Pick<Logger, 'error'>,
): void {
  if (code === 'internal_error') logger.error({ reqId, err: cause }, code);
  else if (code === 'service_unavailable' && cause !== undefined) {
    const { code: name, message } = cause as NodeJS.ErrnoException;
    logger.error({ reqId, reason: name === undefined ? message : `${name}: ${message}` }, code);
  }
}

/** Sends the error response for any thrown value. */
export function sendError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  // The client disconnected while sending its body; or the parser found a fault later, and client-errors.ts has answered.
  if (request.raw.errored || codeOf(thrown) === 'ERR_HTTP_HEADERS_SENT') return;
  const error = toApiError(thrown, request);
  const { status, lines, body, closes } = renderError(error);
  request.record.code = error.code;
  if (closes) reply.raw.shouldKeepAlive = false;
  logError(error, request.record, reply.server.logger);
  respond(reply, status, lines, body);
}
