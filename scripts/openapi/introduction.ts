/** What a document and its reference page say before the operations. The texts are Markdown. */
import { dateText, sunset } from '../../src/core/deprecation.ts';
import { type ErrorCode, errorMessages } from '../../src/core/errors.ts';
import { retryWindowMs } from '../../src/core/idempotency.ts';
import { inDigits, limits } from '../../src/core/limits.ts';
import { maxPage, NewPet } from '../../src/core/pets.ts';
import { maxNamed } from '../../src/core/schema.ts';
import { statuses } from '../../src/http/errors.ts';
import { IdempotencyHeaders } from '../../src/pets/idempotency.ts';
import { exampleServer, headers, headersOfQuickstart, hours, kibibytes } from './words.ts';

export interface Introduction {
  lead: string;
  /** How to begin. The page has steps of its own. */
  steps?: string;
  /** What a client can do. */
  actions?: string;
  general: string;
  requests: string;
  limits: Row[];
  errors: { text: string; rows: { status: number; code: ErrorCode; message: string }[] };
  numbers?: string;
}

type Row = [what: string, limit: string, beyond: string];

const general =
  'All requests and responses are `application/json`. Send your API key as `Authorization: Bearer <API_KEY>`.';

/** HEAD and OPTIONS, which are no operations of the document. */
const methodsOfStore = `Every path supports \`OPTIONS\`, and \`HEAD\` if it supports \`GET\`. They are not listed as operations. \`HEAD\` returns the status and the headers of \`GET\` without a body, and needs the same scope. \`OPTIONS\` returns 204 with the methods of the path in \`Allow\`. It needs an API key, but no scope, and ignores the query and the body.`;

const methodsOfQuickstart = `Every path supports \`POST\` and \`OPTIONS\`. \`OPTIONS\` is not listed as an operation: it returns 204 with the methods of the path in \`Allow\`, needs an API key, and ignores the query and the body.`;

const preconditionsOfStore =
  'A request whose `If-Match` does not hold returns 412 `precondition_failed` and changes nothing. An ETag is that of one page or animal: in `If-Match` on POST it never holds, and `If-None-Match: *` returns 412 on a POST to a path that supports GET. A request that fails for another reason returns that error instead.';

const preconditionsOfQuickstart =
  'A request with `If-Match` returns 412 `precondition_failed`: there is nothing that it could match.';

/** `lowerCase`: a method that is none in lower case. */
const requestsWith = (methods: string, preconditions: string, lowerCase: string) => `${methods}

Any other method returns 405 with \`Allow\`. On a path that exists, the API key is checked before the method, the parameters and the body; only \`invalid_url\`, \`uri_too_long\` and \`expectation_failed\` come before it. \`CONNECT\` always returns 405. A method that HTTP does not know (\`FOO\`, or \`${lowerCase}\` in lower case) returns 400 \`bad_request\`, whatever the key and the path. A path with a slash at its end does not exist. \`OPTIONS *\` needs no API key, and returns 204 with the methods of the whole server in \`Allow\`.

Unknown and repeated query parameters and body fields are errors. The server ignores \`Accept\`, \`If-Modified-Since\`, \`If-Unmodified-Since\` and \`Range\`, and the body of any method but POST.

${preconditions}

Web pages of other origins can call the service only if its operator allows their origin. Then every response has \`Origin\` in \`Vary\`, and responses to those origins also have \`Access-Control-Allow-Origin\` and \`Access-Control-Expose-Headers\`. A CORS preflight needs no API key.`;

const seconds = (ms: number) => ms / 1000;
const { request, bodyGrace, bodyRate, bodyBytes, headerBytes } = limits;
const commonLimits: Row[] = [
  ['path and query', `${inDigits(limits.url)} characters`, '414 `uri_too_long`'],
  ['request line and headers', kibibytes(headerBytes), '431 `headers_too_large`'],
  ['body', `${inDigits(bodyBytes)} bytes (${kibibytes(bodyBytes)})`, '413 `payload_too_large`'],
  ['time for the request line and headers', `${seconds(request)} seconds`, '408 `request_timeout`'],
  [
    'time for the body, after the headers',
    `${seconds(bodyGrace)} seconds, and 1 more per ${kibibytes(bodyRate)} received; ${seconds(request)} for the whole request`,
    '408 `request_timeout`',
  ],
  [
    'requests per minute and account, with all of its API keys',
    'set by the operator, sent in `RateLimit-Limit`',
    '429 `rate_limited`',
  ],
  [
    'invalid parameters and fields that a message names',
    String(maxNamed),
    'the message ends with the number of the others',
  ],
];

const retryKey = IdempotencyHeaders.properties['Idempotency-Key'];
const { name } = NewPet.properties;
const petLimits: Row[] = [
  ['animals per page', `1 to ${maxPage}`, '400 `invalid_parameter`'],
  ['name of an animal', `${name.minLength} to ${inDigits(name.maxLength)} characters`, '400 `invalid_body`'],
  [
    '`Idempotency-Key`',
    `${retryKey.minLength} to ${retryKey.maxLength} characters, kept for ${hours(retryWindowMs)} for each account`,
    '400 `invalid_parameter`',
  ],
];

/** `exception`: the responses that have no body. */
const aboutErrors = (exception = '') =>
  `Every error response has the body \`{code, message, status}\`${exception}. The message names each invalid parameter and field. Do not parse it: it may change, the code does not. The list of codes may grow; no code is ever reused. Four errors can come before the server has read the path and the API key: \`bad_request\`, \`request_timeout\`, \`headers_too_large\`, and \`service_unavailable\` if there are too many connections. They close the connection, and carry no header of the operation.`;

/** All codes in the order of their table, except `forbidden`, which only the account pages send. */
const apiErrors = (Object.keys(errorMessages) as ErrorCode[]).filter((code) => code !== 'forbidden');

/** The errors of unknown paths and unsupported methods, which belong to no operation. */
const outsideErrors: ErrorCode[] = ['invalid_url', 'route_not_found', 'method_not_allowed'];

const errorsWith = (codes: ErrorCode[], text: string): Introduction['errors'] => ({
  text,
  rows: codes.map((code) => ({ status: statuses[code], code, message: errorMessages[code] })),
});

/** The links are relative to the document, and to the reference page: both are next to the account pages. */
const store = {
  general,
  requests: requestsWith(methodsOfStore, preconditionsOfStore, 'get'),
  limits: [...commonLimits, ...petLimits],
  errors: errorsWith(apiErrors, aboutErrors('; a response to `HEAD` has only the status')),
  lead: 'A store of animals.',
  steps: `Three steps lead to your first call:

1. [Create an account](account/sign-up) on the account pages (\`/account\`, next to \`/v1\`). If you cannot, ask the operator of the service for an invitation or a key.
2. [Make an API key](account), and copy it: it is shown only once.
3. List the animals, with your key in place of \`<API_KEY>\`:

   \`\`\`sh
   curl -H 'Authorization: Bearer <API_KEY>' ${exampleServer}/pets
   \`\`\``,
  actions: `You can list animals, add one, or fetch one by id (deprecated; removed on ${dateText(sunset)}, UTC).`,
  numbers: `Identifiers are signed 64-bit integers. The ids of animals are 1 to 2^53 − 1. A categoryId may be larger: use a JSON parser that keeps every digit.`,
};

/** `codes`: those of its operations. */
const introduceQuickstart = (codes: ErrorCode[]): Introduction => ({
  lead: 'A first request to try: send a message. The quickstart is not part of the animal store, but accepts the same API keys.',
  general,
  requests: requestsWith(methodsOfQuickstart, preconditionsOfQuickstart, 'post'),
  limits: commonLimits,
  errors: errorsWith(
    apiErrors.filter((code) => [...codes, ...outsideErrors].includes(code)),
    aboutErrors(),
  ),
});

const table = (head: string[], rows: (string | number)[][]) =>
  [
    `| ${head.join(' | ')} |`,
    `|${'---|'.repeat(head.length)}`,
    ...rows.map((cells) => `| ${cells.join(' | ')} |`),
  ].join('\n');

export const limitTable = (rows: Row[]) => table(['What', 'Limit', 'If exceeded'], rows);

/** The description of a document. */
export function toMarkdown({ lead, steps, actions, general, requests, limits, errors, numbers }: Introduction): string {
  const rows = errors.rows.map(({ status, code, message }) => [status, `\`${code}\``, message]);
  const parts = [
    steps ? `${lead} ${steps}` : lead,
    actions,
    general,
    `## Requests\n\n${requests}`,
    `## Limits\n\n${limitTable(limits)}`,
    `## Errors\n\n${errors.text} The schema Error lists the codes for programs, in \`x-extensible-enum\`.`,
    table(['status', 'code', 'message'], rows),
    numbers && `## Numbers\n\n${numbers}`,
  ];
  return parts.filter((part) => part !== undefined).join('\n\n');
}

const hostOf = (description: string, host: string) => ({
  description,
  variables: { host: { default: host, description: `${description} host.` } },
});

export const documents = {
  'openapi.yaml': {
    prefix: '/v1',
    title: 'Animal Store',
    introduce: (_codes: ErrorCode[]): Introduction => store,
    headers,
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
    introduce: introduceQuickstart,
    headers: headersOfQuickstart,
    servers: [{ url: 'https://{host}/quickstart', ...hostOf('Production', 'api.example.com') }],
    tags: [{ name: 'Messages', description: 'Operations on messages.' }],
  },
};

export const bearerFormat = '^ast_(live|test)_[0-9A-Za-z]{36}$';

const list = new Intl.ListFormat('en-GB');

/** Where a key comes from, and its form and scopes: the description of the security scheme. The page has steps for the first. */
export function describeKeys(operations: { operationId: string; scope?: string | undefined }[]) {
  const sentences = [...Map.groupBy(operations, ({ scope }) => scope)]
    .sort(([scope], [other]) => Number(scope === undefined) - Number(other === undefined))
    .map(([scope, some]) => {
      const ids = list.format(some.map(({ operationId }) => operationId));
      if (scope !== undefined) return `\`${scope}\` is needed by ${ids}.`;
      return `${ids} ${some.length > 1 ? 'need' : 'needs'} no scope.`;
    });
  return {
    source:
      'The API key of a program. Make one on the account pages (`/account`, next to `/v1`), or ask the operator of the service for one.',
    form: `A key has 45 characters: \`ast_live_\` in production or \`ast_test_\` in any other deployment, then 36 letters and digits. Production rejects the keys of other deployments, and they reject its keys.

A key has one or both of the scopes \`pets:read\` and \`pets:write\`. ${sentences.join(' ')}`,
  };
}
