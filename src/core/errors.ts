/** The closed table of error codes, and the error class that carries one. http/errors.ts adds HTTP statuses and headers. */
import { inDigits, limits } from './limits.ts';

export const bodyTooLarge = (maxBytes: number) => `The body is larger than ${inDigits(maxBytes)} bytes.`;

/** The default message of each code, sent if the code that throws gives no more exact one. */
export const errorMessages = {
  bad_request: 'The request is not valid HTTP.',
  invalid_url: 'The URL is not valid: check its percent-encoding.',
  invalid_parameter: 'A parameter is not valid.',
  invalid_cursor: 'cursor must be copied unchanged from the Link header of a list response.',
  invalid_json: 'The body is not valid JSON.',
  invalid_body: 'The body is not valid.',
  missing_api_key: 'Send your API key in the header Authorization: Bearer <API_KEY>.',
  invalid_api_key: 'The API key is not valid here.',
  expired_api_key: 'The API key has expired.',
  revoked_api_key: 'The API key has been revoked.',
  insufficient_scope: 'The API key lacks a scope that this operation needs.',
  forbidden: 'This request is not allowed.',
  route_not_found: 'There is nothing at this path.',
  pet_not_found: 'There is no animal with this id.',
  method_not_allowed: 'This path does not support this method; the Allow header lists those it supports.',
  request_timeout: 'The request did not arrive in time.',
  operation_removed: 'This operation has been removed; list animals with GET /pets and its status filter.',
  precondition_failed: 'A precondition (If-Match or If-None-Match) does not hold, so nothing was changed.',
  payload_too_large: bodyTooLarge(limits.bodyBytes),
  uri_too_long: `The URL is longer than ${inDigits(limits.url)} bytes.`,
  unsupported_media_type:
    'Send the header Content-Type: application/json; the body must be in UTF-8, without a content coding.',
  expectation_failed: 'The only supported expectation is 100-continue.',
  idempotency_key_reused: 'This Idempotency-Key was already used with another body.',
  rate_limited: 'Too many requests; try again after the time in Retry-After.',
  headers_too_large: `The request line and the headers are larger than ${inDigits(limits.headerBytes)} bytes.`,
  internal_error: "The server has a fault. Its log has the details under this response's X-Request-Id.",
  not_implemented: 'This operation is a placeholder and is not implemented.',
  service_unavailable: 'The service cannot answer right now; try again after the time in Retry-After.',
} as const;

export type ErrorCode = keyof typeof errorMessages;

/** An error whose code and message are sent to the client. Any other thrown error becomes `internal_error`. `cause` is only logged. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string = errorMessages[code], options: { cause?: unknown } = {}) {
    super(message, options);
    this.code = code;
  }
}

/** The code of an error of the system or of a driver; empty if it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
