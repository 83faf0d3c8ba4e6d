/** What the OpenAPI documents say beyond the routes: introductions, limits, headers, and the meaning of each status. */
import { type ErrorCode, errorMessages } from '../../src/core/errors.ts';
import { statuses } from '../../src/http/errors.ts';
import { standingHeaders } from '../../src/http/responses.ts';

const text = { type: 'string' };
const digits = { type: 'string', pattern: '^[0-9]+$' };

export const headers = {
  'X-Request-Id': {
    description: 'Identifies this request in the log of the server. Always sent.',
    required: true,
    schema: { ...text, format: 'uuid' },
    example: '5f0c2d1e-8a7b-4c3d-9e6f-1a2b3c4d5e6f',
  },
  'X-Content-Type-Options': {
    description: 'Always nosniff.',
    required: true,
    schema: { ...text, const: 'nosniff' },
    example: 'nosniff',
  },
  'Content-Security-Policy': {
    description: 'Always the same: responses are data, not pages.',
    required: true,
    schema: { ...text, const: standingHeaders['content-security-policy'] },
    example: standingHeaders['content-security-policy'],
  },
  'Cache-Control': {
    description: 'private, no-cache if the response has an ETag; otherwise no-store.',
    required: true,
    schema: { ...text, enum: ['private, no-cache', 'no-store'] },
    example: 'no-store',
  },
  'RateLimit-Limit': {
    description: 'Requests per minute that the API key allows. Sent only if the deployment has a limit.',
    schema: digits,
    example: '600',
  },
  'RateLimit-Remaining': { description: 'Requests left in the current minute.', schema: digits, example: '599' },
  'RateLimit-Reset': {
    description: 'Seconds until the full limit is available again.',
    schema: digits,
    example: '60',
  },
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
        value:
          '<https://api.example.com/v1/pets?limit=2&cursor=YWZ0ZXI6Mg>; rel="next", <https://api.example.com/v1/pets?limit=2>; rel="first"',
      },
      deprecated: {
        value:
          '<https://api.example.com/v1/pets>; rel="successor-version", <https://api.example.com/docs#animal-store/tag/pets/getPet>; rel="deprecation"; type="text/html"',
      },
    },
  },
  Location: {
    description: 'URL of the new animal. Absent once GET /pets/{petId} has been removed.',
    schema: { ...text, format: 'uri-reference' },
    example: 'https://api.example.com/v1/pets/1',
  },
  'Idempotent-Replayed': {
    description: 'true if this repeats the response to an earlier request with the same Idempotency-Key.',
    schema: { ...text, const: 'true' },
    example: 'true',
  },
  Deprecation: {
    description:
      'When the operation was deprecated (RFC 9745), in seconds since 1970. Only a deprecated operation sends it.',
    schema: { ...text, pattern: '^@[0-9]+$' },
    example: '@1795132800',
  },
  Sunset: {
    description:
      'When the operation will be removed (RFC 8594), as an HTTP date. Only a deprecated operation sends it.',
    schema: text,
    example: 'Thu, 05 Dec 2030 00:00:00 GMT',
  },
  'WWW-Authenticate': {
    description: 'How to authenticate (RFC 6750, section 3). Always sent with 401 and 403.',
    schema: text,
    example: 'Bearer realm="animal-store", error="invalid_token"',
  },
  'Retry-After': {
    description: 'Seconds to wait before trying again. Always sent with 429 and 503.',
    schema: digits,
    example: '1',
  },
  Allow: {
    description: 'The methods that the path supports (RFC 9110, section 10.2.1).',
    required: true,
    schema: text,
    example: 'GET, HEAD, POST, OPTIONS',
  },
} as const;
export type HeaderName = keyof typeof headers;

/** Headers of every response, except that a 204 has no Cache-Control. */
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

/** The meaning of each status. The limits are those of the table below. */
export const meanings: Record<number, Meaning> = {
  204: { name: 'Methods', text: 'The supported methods are in Allow.', headers: ['Allow'] },
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
  413: { name: 'ContentTooLarge', text: 'The body is larger than 65,536 bytes' },
  414: { name: 'UriTooLong', text: 'The path and query are longer than 8,192 characters', before: 'key' },
  415: {
    name: 'UnsupportedMediaType',
    text: 'The body is not `application/json` in UTF-8, or has a content coding',
  },
  417: { name: 'ExpectationFailed', text: 'Expect has another value than 100-continue', before: 'key' },
  422: { name: 'UnprocessableContent', text: 'The Idempotency-Key was used with another body in the last 24 hours' },
  429: {
    name: 'TooManyRequests',
    text: 'Too many requests with this API key, or too many rejected API keys from this address',
    headers: ['Retry-After'],
  },
  431: { name: 'HeadersTooLarge', text: 'The request line and headers are larger than 16 KiB', before: 'path' },
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

/** The errors of unknown paths and unsupported methods, which belong to no operation. */
const outsideErrors: ErrorCode[] = ['invalid_url', 'route_not_found', 'method_not_allowed'];

/** The reference page replaces the address by its own server's. */
const exampleServer = 'https://api.example.com/v1';

/** The links are relative to the document, and to the reference page: both are next to the account pages. */
const firstSteps = `A store of animals. Three steps lead to your first call:

1. [Create an account](account/sign-up) on the account pages (\`/account\`, next to \`/v1\`). If you cannot, ask the operator of the service for an invitation or a key.
2. [Make an API key](account), and copy it: it is shown only once.
3. List the animals, with your key in place of \`<API_KEY>\`:

   \`\`\`sh
   curl -H 'Authorization: Bearer <API_KEY>' ${exampleServer}/pets
   \`\`\`

You can list animals, add one, or fetch one by id (deprecated; removed on 5 December 2030, UTC).
`;

/** Only createPet has an Idempotency-Key, and only listPets has pages. */
const petLimits = `
| animals per page | 1 to 100 | 400 \`invalid_parameter\` |
| name of an animal | at least 1 character; the body is its only upper limit | 400 \`invalid_body\` |
| \`Idempotency-Key\` | 1 to 255 characters, kept for 24 hours for each account | 400 \`invalid_parameter\` |`;

const conventions = (limits: string) => `
All requests and responses are \`application/json\`. Send your API key as \`Authorization: Bearer <API_KEY>\`.

## Requests

Every path supports \`OPTIONS\` (204 with \`Allow\`), and \`HEAD\` if it supports \`GET\`. Any other method returns 405 with \`Allow\`. On a path that exists, the API key is checked before the method, the parameters and the body; only \`invalid_url\`, \`uri_too_long\` and \`expectation_failed\` come before it. \`CONNECT\` always returns 405. A method that HTTP does not know (\`FOO\`, or \`get\` in lower case) returns 400 \`bad_request\`, whatever the key and the path. A path with a slash at its end does not exist. \`OPTIONS *\` needs no API key, and returns 204 with the methods of the whole server in \`Allow\`.

Unknown and repeated query parameters and body fields are errors. The server ignores \`Accept\`, \`If-Match\`, \`If-Modified-Since\`, \`If-Unmodified-Since\` and \`Range\`, and the body of any method but POST.

Web pages of other origins can call the service only if its operator allows their origin. Then every response has \`Origin\` in \`Vary\`, and responses to those origins also have \`Access-Control-Allow-Origin\` and \`Access-Control-Expose-Headers\`. A CORS preflight needs no API key.

## Limits

| What | Limit | If exceeded |
|---|---|---|
| path and query | 8,192 characters | 414 \`uri_too_long\` |
| request line and headers | 16 KiB | 431 \`headers_too_large\` |
| body | 65,536 bytes (64 KiB) | 413 \`payload_too_large\` |
| time for the request line and headers | 9 seconds | 408 \`request_timeout\` |
| time for the body, after the headers | 3 seconds, and 1 more per 8 KiB received; 9 for the whole request | 408 \`request_timeout\` |
| requests per minute and API key | set by the operator, sent in \`RateLimit-Limit\` | 429 \`rate_limited\` |
| invalid parameters and fields that a message names | 20 | the message ends with the number of the others |${limits}

## Errors

Every error response has the body \`{code, message, status}\`; a response to HEAD has only the status. The message names each invalid parameter and field. Do not parse it: it may change, the code does not. The list of codes may grow; no code is ever reused. Four errors can come before the server has read the path and the API key: \`bad_request\`, \`request_timeout\`, \`headers_too_large\`, and \`service_unavailable\` if there are too many connections. They close the connection, and carry no header of the operation.

| status | code | message |
|---|---|---|
`;

const rowsOf = (codes: ErrorCode[]) =>
  codes.map((code) => `| ${statuses[code]} | \`${code}\` | ${errorMessages[code]} |`).join('\n');

/** All codes in the order of their table, except `forbidden`, which only the account pages send. */
const apiErrors = (Object.keys(errorMessages) as ErrorCode[]).filter((code) => code !== 'forbidden');

const hostOf = (description: string, host: string) => ({
  description,
  variables: { host: { default: host, description: `${description} host.` } },
});

export const documents = {
  'openapi.yaml': {
    prefix: '/v1',
    title: 'Animal Store',
    /** `codes`: those of the operations. */
    describe: (_codes: ErrorCode[]) => `${firstSteps}${conventions(petLimits)}${rowsOf(apiErrors)}

## Numbers

Identifiers are signed 64-bit integers. The ids of animals are 1 to 2^53 − 1. A categoryId may be larger: use a JSON parser that keeps every digit.`,
    servers: [
      { url: 'https://{host}/v1', ...hostOf('Production', 'api.example.com') },
      { url: 'https://{host}/v1', ...hostOf('Staging', 'staging.example.com') },
    ],
    tags: [
      { name: 'Pets', description: 'Operations on animals.' },
      { name: 'Store', description: 'Operations on the store other than those on animals.' },
    ],
  },
  'openapi.quickstart.yaml': {
    prefix: '/quickstart',
    title: 'Messages quickstart',
    describe: (codes: ErrorCode[]) =>
      `A first request to try: send a message. The quickstart is not part of the animal store, but accepts the same API keys.
${conventions('')}${rowsOf(apiErrors.filter((code) => [...codes, ...outsideErrors].includes(code)))}`,
    servers: [{ url: 'https://{host}/quickstart', ...hostOf('Production', 'api.example.com') }],
    tags: [{ name: 'Messages', description: 'Operations on messages.' }],
  },
};

export const bearerFormat = '^ast_(live|test)_[0-9A-Za-z]{36}$';

/** The description of the security scheme. `scopes`: a sentence on each scope. */
export const describeKeys = (scopes: string[]) =>
  `The API key of a program. Make one on the account pages (\`/account\`, next to \`/v1\`), or ask the operator of the service for one.

A key has 45 characters: \`ast_live_\` in production or \`ast_test_\` in any other deployment, then 36 letters and digits. Production rejects the keys of other deployments, and they reject its keys.

A key has one or both of the scopes \`pets:read\` and \`pets:write\`. ${scopes.join(' ')}`;
