/** The closed table of error codes, and the one shape in which every failure is answered. */
import { type Static, Type } from '@sinclair/typebox';

/** code → [HTTP status, the sentence sent when the place of failure has nothing more exact to say]. */
export const errorTable = {
  bad_request: [400, 'The request is not valid HTTP.'],
  invalid_url: [400, 'The URL is not valid: check its percent-encoding.'],
  invalid_parameter: [400, 'A parameter is not valid.'],
  invalid_cursor: [400, 'cursor must be taken unchanged from the Link header of a list answer.'],
  invalid_json: [400, 'The body is not valid JSON.'],
  invalid_body: [400, 'The body is not valid.'],
  missing_api_key: [401, 'Send your API key in the header Authorization: Bearer <API_KEY>.'],
  invalid_api_key: [401, 'The API key is not valid here.'],
  expired_api_key: [401, 'The API key has expired.'],
  revoked_api_key: [401, 'The API key has been revoked.'],
  insufficient_scope: [403, 'The API key lacks a scope that this operation needs.'],
  route_not_found: [404, 'There is nothing at this path.'],
  pet_not_found: [404, 'There is no animal with this id.'],
  method_not_allowed: [405, 'This path does not support this method; the Allow header names those it does.'],
  request_timeout: [408, 'The request did not arrive in time.'],
  operation_removed: [410, 'This operation has been removed; list animals with GET /pets and its status filter.'],
  payload_too_large: [413, 'The body is too large.'],
  uri_too_long: [414, 'The URL is too long.'],
  unsupported_media_type: [415, 'The body must be application/json in UTF-8, without a content coding.'],
  expectation_failed: [417, 'The only supported expectation is 100-continue.'],
  idempotency_key_reused: [422, 'This Idempotency-Key was already used with another body.'],
  rate_limited: [429, 'Too many requests; try again after the time in Retry-After.'],
  headers_too_large: [431, 'The header section is too large.'],
  internal_error: [500, 'Something went wrong on our side; the X-Request-Id of this answer finds it in our log.'],
  not_implemented: [501, 'This operation is named but not available.'],
  service_unavailable: [503, 'The service cannot answer right now; try again after the time in Retry-After.'],
} as const satisfies Record<string, readonly [status: number, message: string]>;

export type ErrorCode = keyof typeof errorTable;

export const ErrorBody = Type.Object(
  {
    code: Type.String({
      description: 'Machine-readable error code. New codes may be added; none changes its meaning.',
    }),
    message: Type.String({ description: 'Human-readable description, naming each field or parameter at fault.' }),
    status: Type.Integer({ description: 'The HTTP status code of the response.' }),
  },
  { title: 'Error', description: 'The one shape of every failure.' },
);
export type ErrorBody = Static<typeof ErrorBody>;

/**
 * A failure that may be shown to the client as it is. Anything else that is thrown becomes `internal_error`.
 * `headers` are added to the answer; `cause` is for the log alone.
 */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, message?: string, options: { headers?: Record<string, string>; cause?: unknown } = {}) {
    const [status, sentence] = errorTable[code];
    super(message ?? sentence, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ApiError';
    this.code = code;
    this.status = status;
    this.headers = options.headers ?? {};
  }

  body(): ErrorBody {
    return { code: this.code, message: this.message, status: this.status };
  }
}
