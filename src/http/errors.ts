/** Maps errors to HTTP: the headers and the body of every error response, and how it is sent. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, codeOf, type ErrorCode, outageOf } from '../core/errors.ts';
import { minuteMs } from '../core/limits.ts';
import type { KnownResponse } from './responses.ts';

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

/** A 503 that closes the connection: whoever is refused sends again. Created once: capturing a stack trace costs more than the rest of the response. */
export const overloaded = new HttpError('service_unavailable', { ...retrySoon, connection: 'close' });

/** The additional headers of an error. */
function headersOf(error: ApiError): Readonly<Record<string, string>> {
  if (error instanceof HttpError) return error.headers;
  return error.code === 'service_unavailable' ? retrySoon : {};
}

/** Turns any thrown value into an ApiError: `internal_error`, whose `cause` is the original, unless Fastify rejects a Content-Type that is not one. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (codeOf(error) === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return new ApiError('unsupported_media_type');
  return new ApiError('internal_error', undefined, { cause: error });
}

/** The response for an error. It must not be stored: the next response may differ (RFC 9111, section 5.2.2.5). */
export function errorResponse(error: ApiError): KnownResponse & { body: Buffer } {
  const { code, message, status } = error;
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store', ...headersOf(error) };
  return { status, headers, body: Buffer.from(JSON.stringify({ code, message, status })) };
}

/** For each log, the outages of the last minute, by their reason: how many more requests each has failed. */
const outages = new WeakMap<object, Map<string, number>>();

/** Logs the first request that an outage fails, and a minute later how many more it has. */
function logOutage(error: ApiError, { log, server }: FastifyRequest): void {
  const reason = outageOf(error);
  const counts = outages.get(server.log) ?? new Map<string, number>();
  outages.set(server.log, counts);
  const repeats = counts.get(reason);
  counts.set(reason, repeats === undefined ? 0 : repeats + 1);
  if (repeats !== undefined) return;
  log.error({ reason }, error.code);
  setTimeout(() => {
    const count = counts.get(reason);
    if (count) server.log.error({ reason, count }, error.code);
    counts.delete(reason);
  }, minuteMs).unref();
}

/**
 * Logs the cause of a 5xx error, which the client never sees: a bug with its stack trace, an outage as one line. Requests rejected for overload have
 * only their request line.
 */
function logError(error: ApiError, request: FastifyRequest): void {
  const { code, cause } = error;
  if (code === 'internal_error') request.log.error({ err: cause }, code);
  else if (code === 'service_unavailable' && cause !== undefined) logOutage(error, request);
}

/** Begins the response for any thrown value: logs its cause, and sets the status and the additional headers. Returns the error. */
export function beginError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): ApiError {
  const error = toApiError(thrown);
  request.errorCode = error.code;
  logError(error, request);
  reply.code(error.status).headers(headersOf(error));
  return error;
}

/** Sends the error response for any thrown value. */
export function sendError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  // The client disconnected while it sent its body; or client-errors.ts has answered.
  if (request.raw.errored || reply.sent || codeOf(thrown) === 'ERR_HTTP_HEADERS_SENT') return;
  const { headers, body } = errorResponse(beginError(thrown, request, reply));
  reply.headers(headers).send(body);
}
