/** Generates the OpenAPI documents from the routes: their schemas, their operations and the table of error codes. */
import { writeFileSync } from 'node:fs';
import swagger from '@fastify/swagger';
import type { FastifyInstance, FastifySchema } from 'fastify';
import { pino } from 'pino';
import { stringify } from 'yaml';
import { buildApp } from '../src/app.ts';
import { type ErrorCode, errorMessages } from '../src/errors.ts';
import { ErrorBody, statuses } from '../src/http/errors.ts';
import { createMetrics } from '../src/http/metrics.ts';
import type { AnswerHeader, Operation } from '../src/http/operation.ts';
import { standingHeaders } from '../src/http/responses.ts';

type Json = Record<string, unknown>;
type DocumentName = 'openapi.yaml' | 'openapi.quickstart.yaml';

const quickstartBasePath = '/quickstart';

/** The errors that every operation can return. */
const commonErrors: ErrorCode[] = [
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

/** Codes that only the account pages send. No document lists them. */
const pageErrors: ErrorCode[] = ['forbidden'];

/** The errors of unknown paths and unsupported methods, which belong to no operation. */
const outsideErrors: ErrorCode[] = ['invalid_url', 'route_not_found', 'method_not_allowed'];

const responseNames: Record<number, string> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  408: 'RequestTimeout',
  410: 'Gone',
  413: 'ContentTooLarge',
  414: 'UriTooLong',
  415: 'UnsupportedMediaType',
  417: 'ExpectationFailed',
  422: 'UnprocessableContent',
  429: 'TooManyRequests',
  431: 'HeadersTooLarge',
  500: 'InternalError',
  501: 'NotImplemented',
  503: 'ServiceUnavailable',
};

const text = { type: 'string' };
const headers = {
  'X-Request-Id': {
    description: 'Identifies this request in the log of the server. Always sent.',
    required: true,
    schema: { ...text, format: 'uuid' },
  },
  'X-Content-Type-Options': { description: 'Always nosniff.', required: true, schema: { ...text, const: 'nosniff' } },
  'Content-Security-Policy': {
    description: 'Always the same: responses are data, not pages.',
    required: true,
    schema: { ...text, const: standingHeaders['content-security-policy'] },
  },
  'Cache-Control': {
    description: 'private, no-cache if the response has an ETag; otherwise no-store.',
    required: true,
    schema: text,
  },
  Vary: { description: 'Authorization if the response has an ETag.', schema: text },
  ETag: {
    description:
      'Strong validator (RFC 9110, section 8.8.3). Send it in If-None-Match to get 304 if nothing has changed.',
    schema: text,
  },
  Link: { description: 'Related pages and documents (RFC 8288).', schema: text },
  Location: {
    description: 'URL of the new animal. Absent once GET /pets/{petId} has been removed.',
    schema: { ...text, format: 'uri-reference' },
  },
  'Idempotent-Replayed': {
    description: 'true if this repeats the response to an earlier request with the same Idempotency-Key.',
    schema: { ...text, const: 'true' },
  },
  Deprecation: {
    description: 'When the operation was deprecated (RFC 9745), in seconds since 1970.',
    schema: { ...text, pattern: '^@\\d+$' },
  },
  Sunset: { description: 'When the operation will be removed (RFC 8594), as an HTTP date.', schema: text },
  'WWW-Authenticate': { description: 'How to authenticate (RFC 6750, section 3).', schema: text },
  'RateLimit-Limit': {
    description: 'Requests per minute that the API key allows. Sent only if there is a limit.',
    schema: { ...text, pattern: '^\\d+$' },
  },
  'RateLimit-Remaining': {
    description: 'Requests left in the current minute.',
    schema: { ...text, pattern: '^\\d+$' },
  },
  'RateLimit-Reset': {
    description: 'Seconds until the full limit is available again.',
    schema: { ...text, pattern: '^\\d+$' },
  },
  'Retry-After': { description: 'Seconds to wait before trying again.', schema: { ...text, pattern: '^\\d+$' } },
} as const;
type HeaderName = keyof typeof headers;

const rateHeaders: HeaderName[] = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'];
const alwaysSent: HeaderName[] = [
  'X-Request-Id',
  'X-Content-Type-Options',
  'Content-Security-Policy',
  'Cache-Control',
  ...rateHeaders,
];
const withEtag: HeaderName[] = ['ETag', 'Vary'];
const errorHeaders: Partial<Record<number, HeaderName[]>> = {
  401: ['WWW-Authenticate'],
  403: ['WWW-Authenticate'],
  429: ['Retry-After'],
  503: ['Retry-After'],
};

function headerRefs(names: HeaderName[]): Json {
  return Object.fromEntries([...new Set(names)].map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** An example of a schema, built from the first example of each property. */
function exampleOf(schema: Json): unknown {
  if (schema.type === 'array') return [exampleOf(schema.items as Json)];
  const properties = Object.entries(schema.properties as Record<string, { examples?: unknown[]; enum?: unknown[] }>);
  return Object.fromEntries(properties.map(([name, schema]) => [name, schema.examples?.[0] ?? schema.enum?.[0]]));
}

function errorResponse(status: number, codes: ErrorCode[], announced: HeaderName[]): Json {
  const examples = codes.map((code) => [
    code,
    { summary: code, value: { code, message: errorMessages[code], status } },
  ]);
  return {
    description: codes.map((code) => `\`${code}\`: ${errorMessages[code]}`).join('\n\n'),
    headers: headerRefs([...alwaysSent, ...(errorHeaders[status] ?? []), ...announced]),
    content: { 'application/json': { schema: ErrorBody, examples: Object.fromEntries(examples) } },
  };
}

function responsesOf({ success, errors, sunset }: Operation, method: string): Json {
  const announced: HeaderName[] = sunset ? ['Deprecation', 'Sunset', 'Link'] : [];
  const responses: Json = {};
  if (success) {
    const named = [...alwaysSent, ...((success.headers ?? []) as AnswerHeader[]), ...announced];
    const kept = method === 'get' ? withEtag : [];
    responses[success.status] = {
      description: success.description,
      headers: headerRefs([...named, ...kept]),
      content: { 'application/json': { schema: success.schema, example: exampleOf(success.schema) } },
    };
    if (method === 'get') {
      responses[304] = {
        description: 'The response that you already have is current.',
        headers: headerRefs([...named, ...kept]),
      };
    }
  }
  if (!success)
    responses['2XX'] = { description: 'Reserved and never sent: the response of a success is not defined.' };
  const byStatus = Map.groupBy([...errors, ...commonErrors], (code) => statuses[code]);
  for (const [status, codes] of byStatus) responses[status] = errorResponse(status, codes, announced);
  return responses;
}

/** Moves titled schemas and repeated responses into components, and drops unused headers. */
function share(document: Json): void {
  const components = document.components as { schemas: Json; responses: Json; headers: Json };
  components.responses = {};
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== 'object' || value === null) return value;
    const { title, ...schema } = Object.fromEntries(Object.entries(value).map(([key, child]) => [key, walk(child)]));
    if (typeof title !== 'string' || schema.version !== undefined)
      return title === undefined ? schema : { title, ...schema };
    const { default: initial, ...shared } = schema;
    components.schemas[title] = shared;
    const reference = { $ref: `#/components/schemas/${title}` };
    return initial === undefined ? reference : { ...reference, default: initial };
  };
  document.paths = walk(document.paths);

  const operations = Object.values(document.paths as Record<string, Json>).flatMap((path) => Object.values(path)) as {
    responses: Json;
  }[];
  const seen = Map.groupBy(
    operations.flatMap(({ responses }) => Object.entries(responses)),
    ([status, response]) => status + JSON.stringify(response),
  );
  for (const { responses } of operations) {
    for (const [status, response] of Object.entries(responses)) {
      const name = responseNames[Number(status)];
      if (name === undefined || (seen.get(status + JSON.stringify(response)) ?? []).length < 2) continue;
      // Different responses with the same status cannot share a name. The first repeated one gets it.
      components.responses[name] ??= response;
      if (JSON.stringify(components.responses[name]) === JSON.stringify(response))
        responses[status] = { $ref: `#/components/responses/${name}` };
    }
  }
  const written = JSON.stringify(document);
  for (const name of Object.keys(components.headers)) {
    if (!written.includes(`"#/components/headers/${name}"`)) delete components.headers[name];
  }
}

/** Marks parameters that have a default as optional. */
function relax({ parameters = [] }: { parameters?: { required: boolean; schema: Json }[] }): void {
  for (const parameter of parameters) if (parameter.schema.default !== undefined) parameter.required = false;
}

const apiErrors = (Object.keys(errorMessages) as ErrorCode[]).filter((code) => !pageErrors.includes(code));

const rowsOf = (codes: ErrorCode[]) =>
  codes.map((code) => `| ${statuses[code]} | \`${code}\` | ${errorMessages[code]} |`).join('\n');

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

const bearerFormat = '^ast_(live|test)_[0-9A-Za-z]{36}$';

/** The description of the security scheme. `scopes`: which operations need which. */
const describeKeys = (scopes: string) =>
  `The API key of a program. Make one on the account pages (\`/account\`, next to \`/v1\`), or ask the operator of the service for one.

A key has 45 characters: \`ast_live_\` in production or \`ast_test_\` in any other deployment, then 36 letters and digits. Production rejects the keys of other deployments, and they reject its keys.

${scopes}`;

const conventions = `
All requests and responses are \`application/json\`. Send your API key as \`Authorization: Bearer <API_KEY>\`.

Every error response has the body \`{code, message, status}\`. Every path supports \`OPTIONS\` (204 with \`Allow\`), and \`HEAD\` if it supports \`GET\`. Any other method returns 405 with \`Allow\`. The API key is checked first. The list of codes may grow; no code is ever reused:

| status | code | message |
|---|---|---|
`;

const documents = {
  'openapi.yaml': {
    prefix: '/v1',
    title: 'Animal Store',
    description: `${firstSteps}${conventions}${rowsOf(apiErrors)}

Identifiers are signed 64-bit integers. The ids of animals stay below 2^53. A categoryId may be larger: use a JSON parser that keeps every digit.`,
    scopes:
      'A key has one or both scopes. `pets:read` is needed by listPets and getPet, `pets:write` by createPet. listOrders needs no scope.',
    servers: [
      {
        url: 'https://{host}/v1',
        description: 'Production',
        variables: { host: { default: 'api.example.com', description: 'Production host.' } },
      },
      {
        url: 'https://{host}/v1',
        description: 'Staging',
        variables: { host: { default: 'staging.example.com', description: 'Staging host.' } },
      },
    ],
    tags: [
      { name: 'Store', description: 'Operations on the store other than those on animals.' },
      { name: 'Pets', description: 'Operations on animals.' },
    ],
  },
  'openapi.quickstart.yaml': {
    prefix: quickstartBasePath,
    title: 'Messages quickstart',
    description: `A first request to try: send a message. The quickstart is not part of the animal store, but accepts the same API keys.
${conventions}${rowsOf(outsideErrors)}`,
    scopes: 'sendMessage needs no scope.',
    servers: [
      {
        url: `https://{host}${quickstartBasePath}`,
        description: 'Production',
        variables: { host: { default: 'api.example.com', description: 'Production host.' } },
      },
    ],
    tags: [{ name: 'Messages', description: 'Operations on messages.' }],
  },
};

/** Registers the generator of one document. Call it before the routes are registered. */
async function describe(app: FastifyInstance, name: DocumentName): Promise<void> {
  const { prefix, title, description, scopes, servers, tags } = documents[name];
  const operations = new Map<string, Operation>();

  await app.register(swagger, {
    decorator: name as 'swagger',
    openapi: {
      openapi: '3.1.0',
      info: {
        title,
        description,
        version: '1.0.0',
        contact: { name: 'Animal Store', url: 'https://api.example.com' },
        license: { name: 'MIT', identifier: 'MIT' } as never,
      },
      servers,
      tags,
      security: [{ apiKey: [] }],
      components: {
        headers: headers as never,
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', bearerFormat, description: describeKeys(scopes) },
        },
      },
    },
    transform({ schema, url, route }) {
      const operation = route.config?.operation;
      if (!operation || !url.startsWith(`${prefix}/`)) return { schema: { hide: true } as FastifySchema, url };
      const { operationId, tags: groups, summary, description: words, sunset, stability, hideTryItPanel } = operation;
      operations.set(operationId, operation);
      const described = {
        ...schema,
        operationId,
        tags: groups,
        summary,
        description: words,
        ...(sunset && { deprecated: true, 'x-deprecated-sunset': sunset.toISOString().slice(0, 10) }),
        ...(stability && { 'x-stability': stability }),
        ...(hideTryItPanel && { 'x-hideTryItPanel': true }),
      };
      return { schema: described as FastifySchema, url: url.slice(prefix.length) };
    },
    transformObject(result) {
      // Copying through JSON drops the symbols of TypeBox schemas.
      const document = JSON.parse(JSON.stringify((result as { openapiObject: unknown }).openapiObject));
      for (const path of Object.values(document.paths as Record<string, Record<string, Json>>)) {
        for (const [method, operation] of Object.entries(path)) {
          operation.responses = JSON.parse(
            JSON.stringify(responsesOf(operations.get(operation.operationId as string) as Operation, method)),
          );
          relax(operation);
        }
      }
      share(document);
      const { openapi, info, servers: addresses, tags: groups, security, paths, components } = document;
      return { openapi, info, servers: addresses, tags: groups, security, paths, components };
    },
  });
}

/** Generates the documents from the current code, as YAML. */
export async function generateDocuments(): Promise<Record<DocumentName, string>> {
  const app = await buildApp({
    store: { pets: {}, measure: () => ({ waitingWrites: 0, walBytes: undefined }) } as never,
    logger: pino({ level: 'silent' }),
    logRequest: () => undefined,
    now: () => new Date(),
    live: false,
    quickstartBasePath,
    enforceSunset: true,
    metrics: createMetrics(''),
    limits: { maxInFlight: 1, maxConnections: 1, refusalsPerMinute: 1 },
    draining: () => false,
    documents: { animalStore: '', quickstart: '' },
    readPageFile: async () => Buffer.from(''),
    watch: async (bare) => {
      await describe(bare, 'openapi.yaml');
      await describe(bare, 'openapi.quickstart.yaml');
    },
  });
  await app.ready();
  const write = (name: DocumentName) =>
    stringify((app as unknown as Record<string, () => unknown>)[name]?.(), {
      aliasDuplicateObjects: false,
      lineWidth: 0,
    });
  return { 'openapi.yaml': write('openapi.yaml'), 'openapi.quickstart.yaml': write('openapi.quickstart.yaml') };
}

if (import.meta.main) {
  for (const [name, document] of Object.entries(await generateDocuments()))
    writeFileSync(new URL(`../${name}`, import.meta.url), document);
}
