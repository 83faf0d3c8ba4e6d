/** The closed table of error codes, and the error class that carries one. http/errors.ts adds headers. */
import { inDigits, limits, maxHeaders } from './limits.ts';

export const bodyTooLarge = (maxBytes: number) => `The body is larger than ${inDigits(maxBytes)} bytes.`;

/** The HTTP status of each code (RFC 9110, section 15; RFC 6585), and its message, unless the ApiError has its own. */
export const errorTable = {
  bad_request: [400, 'The request is not valid HTTP.'],
  invalid_url: [400, 'The URL is not valid: check its percent-encoding.'],
  invalid_parameter: [400, 'A parameter is not valid.'],
  invalid_cursor: [400, 'cursor must be copied unchanged from the Link header of a list response.'],
  invalid_json: [400, 'The body is not valid JSON.'],
  invalid_body: [400, 'The body is not valid.'],
  missing_api_key: [401, 'Send your API key in the header Authorization: Bearer <API_KEY>.'],
  invalid_api_key: [401, 'The API key is not valid here.'],
  expired_api_key: [401, 'The API key has expired.'],
  revoked_api_key: [401, 'The API key has been revoked.'],
  insufficient_scope: [403, 'The API key lacks a scope that this operation needs.'],
  forbidden: [403, 'This request is not allowed.'],
  route_not_found: [404, 'There is nothing at this path.'],
  pet_not_found: [404, 'There is no animal with this id.'],
  method_not_allowed: [405, 'This path does not support this method; the Allow header lists those it supports.'],
  request_timeout: [408, 'The request did not arrive in time.'],
  operation_removed: [410, 'This operation has been removed; list animals with GET /pets and its status filter.'],
  precondition_failed: [412, 'A precondition (If-Match or If-None-Match) does not hold, so nothing was changed.'],
  payload_too_large: [413, bodyTooLarge(limits.bodyBytes)],
  uri_too_long: [414, `The URL is longer than ${inDigits(limits.urlBytes)} bytes.`],
  unsupported_media_type: [
    415,
    'Send the header Content-Type: application/json; the body must be in UTF-8, without a content coding.',
  ],
  expectation_failed: [417, 'The only supported expectation is 100-continue.'],
  idempotency_key_reused: [422, 'This Idempotency-Key was already used with another body.'],
  rate_limited: [429, 'Too many requests; try again after the time in Retry-After.'],
  headers_too_large: [
    431,
    `There are more than ${maxHeaders} headers, or they and the request line are larger than ${inDigits(limits.headerBytes)} bytes.`,
  ],
  internal_error: [500, "The server has a fault. Its log has the details under this response's X-Request-Id."],
  not_implemented: [501, 'This operation is a placeholder and is not implemented.'],
  service_unavailable: [503, 'The service cannot answer right now; try again after the time in Retry-After.'],
} as const;

export type ErrorCode = keyof typeof errorTable;

/** An error whose code and message are sent to the client. Any other thrown error becomes `internal_error`. `cause` is only logged. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ErrorCode;
  /** The HTTP status. */
  readonly status: number;

  constructor(code: ErrorCode, message: string = errorTable[code][1], options: { cause?: unknown } = {}) {
    super(message, options);
    this.code = code;
    [this.status] = errorTable[code];
  }
}

/** The code of an error, whoever throws it: this server, Fastify, Node or a driver. Empty if it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** Why the store cannot answer, in one line for the operator. */
export function outageOf(error: unknown): string {
  const cause = error instanceof ApiError && error.cause !== undefined ? error.cause : error;
  const [code, message] = [codeOf(cause), messageOf(cause)];
  // Every message includes the code '' of an error without one.
  return message.includes(code) ? message : `${code}: ${message}`;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
