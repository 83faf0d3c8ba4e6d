/** What the OpenAPI documents say of headers, and the meaning of each status. */
import type { ErrorCode } from '../../src/core/errors.ts';
import { retryWindowMs } from '../../src/core/idempotency.ts';
import { inDigits, limits } from '../../src/core/limits.ts';
import { standingHeaders } from '../../src/http/responses.ts';
import { deprecationHeaders } from '../../src/pets/deprecation.ts';

/** The reference page replaces the address by its own server's. */
export const exampleServer = 'https://api.example.com/v1';

export const kibibytes = (bytes: number) => `${bytes / 1024} KiB`;
export const hours = (ms: number) => `${ms / 3_600_000} hours`;

const text = { type: 'string' };
const announcement = deprecationHeaders(exampleServer, 'getPet');
const digits = { type: 'string', pattern: '^[0-9]+$' };

/** A header with one value. */
const constant = (description: string, value: string, required: { required?: true } = {}) => {
  return { description, ...required, schema: { ...text, const: value }, example: value };
};
const number = (description: string, example: string) => ({ description, schema: digits, example });
const always = { required: true } as const;

export const headers = {
  'X-Request-Id': {
    description: 'Identifies this request in the log of the server. Always sent.',
    required: true,
    schema: { ...text, format: 'uuid' },
    example: '5f0c2d1e-8a7b-4c3d-9e6f-1a2b3c4d5e6f',
  },
  'X-Content-Type-Options': constant('Always nosniff.', standingHeaders['x-content-type-options'], always),
  'Content-Security-Policy': constant(
    'Always the same: responses are data, not pages.',
    standingHeaders['content-security-policy'],
    always,
  ),
  'Cache-Control': {
    description: 'private, no-cache if the response has an ETag; otherwise no-store.',
    required: true,
    schema: { ...text, enum: ['private, no-cache', 'no-store'] },
    example: 'no-store',
  },
  'RateLimit-Limit': number(
    'Requests per minute that the account can send, with all of its API keys. Sent only if the deployment has a limit.',
    '600',
  ),
  'RateLimit-Remaining': number('Requests left in the current minute.', '599'),
  'RateLimit-Reset': number('Seconds until the full limit is available again.', '60'),
  ETag: {
    description:
      'Strong validator (RFC 9110, section 8.8.3). Send it in If-None-Match to get 304 if nothing has changed.',
    schema: text,
    example: '"47DEQpj8HBSa-_TImW-5JCeuQeR"',
  },
  Vary: { description: 'Authorization, because the response has an ETag.', schema: text, example: 'Authorization' },
  Link: {
    description:
      'Links (RFC 8288). A page has rel="first", and rel="next" unless it is the last. A deprecated operation has rel="successor-version" and rel="deprecation". A URL can be a path without a host.',
    schema: text,
    examples: {
      page: {
        value: `<${exampleServer}/pets?limit=2&cursor=YWZ0ZXI6Mg>; rel="next", <${exampleServer}/pets?limit=2>; rel="first"`,
      },
      deprecated: { value: announcement.link },
    },
  },
  Location: {
    description: 'URL of the new animal. Absent once GET /pets/{petId} has been removed.',
    schema: { ...text, format: 'uri-reference' },
    example: `${exampleServer}/pets/1`,
  },
  'Idempotent-Replayed': constant(
    'true if this repeats the response to an earlier request with the same Idempotency-Key.',
    'true',
  ),
  Deprecation: {
    description:
      'When the operation was deprecated (RFC 9745), in seconds since 1970. Only a deprecated operation sends it.',
    schema: { ...text, pattern: '^@[0-9]+$' },
    example: announcement.deprecation,
  },
  Sunset: {
    description:
      'When the operation will be removed (RFC 8594), as an HTTP date. Only a deprecated operation sends it.',
    schema: text,
    example: announcement.sunset,
  },
  'WWW-Authenticate': {
    description: 'How to authenticate (RFC 6750, section 3). Always sent with 401 and 403.',
    schema: text,
    example: 'Bearer realm="animal-store", error="invalid_token"',
  },
  'Retry-After': number('Seconds to wait before trying again. Always sent with 429 and 503.', '1'),
  'Accept-Encoding': constant('Sent if the body has a content coding: bodies must have none.', 'identity'),
} as const;
export type HeaderName = keyof typeof headers;

/** No response of the quickstart has an ETag, and none is a 403. */
export const headersOfQuickstart = {
  ...headers,
  'Cache-Control': constant('Always no-store.', 'no-store', always),
  'WWW-Authenticate': {
    ...headers['WWW-Authenticate'],
    description: 'How to authenticate (RFC 6750, section 3). Always sent with 401.',
  },
};

/** Headers of every response. */
export const alwaysSent: HeaderName[] = [
  'X-Request-Id',
  'X-Content-Type-Options',
  'Content-Security-Policy',
  'Cache-Control',
];
/** Headers of every response that is sent after the API key was accepted. */
export const rateHeaders: HeaderName[] = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'];

interface Meaning {
  /** Name of the response in components. */
  name: string;
  text: string;
  headers?: HeaderName[];
  /** Whether the response is sent before the API key is accepted, or even before the path is read. */
  before?: 'key' | 'path';
}

/** The meaning of each status. */
export const meanings: Record<number, Meaning> = {
  304: { name: 'NotModified', text: 'The response that you already have is current.' },
  400: { name: 'BadRequest', text: 'The request is not valid' },
  401: {
    name: 'Unauthorized',
    text: 'The API key is missing or not accepted',
    headers: ['WWW-Authenticate'],
    before: 'key',
  },
  403: { name: 'Forbidden', text: 'The API key lacks the scope of the operation', headers: ['WWW-Authenticate'] },
  404: { name: 'NotFound', text: 'The animal does not exist' },
  408: { name: 'RequestTimeout', text: 'The headers or the body did not arrive in time', before: 'path' },
  410: { name: 'Gone', text: 'The operation has been removed' },
  412: { name: 'PreconditionFailed', text: 'If-Match or If-None-Match does not hold' },
  413: { name: 'ContentTooLarge', text: `The body is larger than ${inDigits(limits.bodyBytes)} bytes` },
  414: {
    name: 'UriTooLong',
    text: `The path and query are longer than ${inDigits(limits.url)} characters`,
    before: 'key',
  },
  415: {
    name: 'UnsupportedMediaType',
    text: 'The body is not `application/json` in UTF-8, or has a content coding',
    headers: ['Accept-Encoding'],
  },
  417: { name: 'ExpectationFailed', text: 'Expect has another value than 100-continue', before: 'key' },
  422: {
    name: 'UnprocessableContent',
    text: `The Idempotency-Key was used with another body in the last ${hours(retryWindowMs)}`,
  },
  429: {
    name: 'TooManyRequests',
    text: 'Too many requests of this account, or too many rejected API keys from this address',
    headers: ['Retry-After'],
  },
  431: {
    name: 'HeadersTooLarge',
    text: `The request line and headers are larger than ${kibibytes(limits.headerBytes)}`,
    before: 'path',
  },
  500: { name: 'InternalError', text: 'The server has a fault; the outcome of a POST is unknown' },
  501: { name: 'NotImplemented', text: 'The operation is a placeholder' },
  503: {
    name: 'ServiceUnavailable',
    text: 'The server is overloaded, or its store is unavailable; the outcome of a POST is unknown',
    headers: ['Retry-After'],
  },
};

/** The errors that every operation can return: HTTP, the API key and the server cause them, not the operation. */
export const commonErrors: ErrorCode[] = [
  'bad_request',
  'missing_api_key',
  'invalid_api_key',
  'expired_api_key',
  'revoked_api_key',
  'request_timeout',
  'uri_too_long',
  'expectation_failed',
  'rate_limited',
  'headers_too_large',
  'internal_error',
  'service_unavailable',
];
