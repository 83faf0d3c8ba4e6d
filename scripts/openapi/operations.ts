/** Describes the operations of a document. HEAD and OPTIONS are not among them: the introduction says what they return. */
import type { TObject, TSchema } from '@sinclair/typebox';
import { type ErrorCode, errorTable } from '../../src/core/errors.ts';
import { readJson } from '../../src/core/int64.ts';
import { checkOf, joinFaults, requirementOf } from '../../src/core/schema.ts';
import type { Operation } from '../../src/http/operation.ts';
import { type Components, type Json, ref, schemaOf } from './components.ts';
import { alwaysSent, commonErrors, meanings, rateHeaders } from './words.ts';

export interface Route {
  method: string;
  url: string;
  schema: { params?: TObject; querystring?: TObject; headers?: TObject; body?: TObject };
  operation: Operation;
}

/** The examples of an operation that have the part that `pick` returns, by name. */
function examplesOf({ examples = {} }: Operation, pick: (example: NonNullable<typeof examples>[string]) => unknown) {
  const picked = Object.entries(examples).filter(([, example]) => pick(example) !== undefined);
  const named = picked.map(([name, example]) => [name, { summary: example.summary, value: pick(example) }]);
  return named.length > 0 ? { examples: Object.fromEntries(named) as Json } : {};
}

const ifNoneMatch = {
  name: 'If-None-Match',
  in: 'header',
  required: false,
  description: 'The ETag of the response that you have, a list of them, or `*`. If it is current, the response is 304.',
  schema: { type: 'string' },
};

function parametersOf({ schema, operation }: Route, components: Components): Json[] {
  const parts = { path: schema.params, query: schema.querystring, header: schema.headers };
  return Object.entries(parts).flatMap(([place, part]) =>
    Object.entries(part?.properties ?? {}).map(([name, { description, examples: _, ...property }]) => {
      const required = part?.required?.includes(name) === true && property.default === undefined;
      return {
        name,
        in: place,
        required,
        description,
        schema: property.title ? ref('schemas', property.title) : schemaOf(property as TSchema, components),
        // Swagger UI fills the first example in, and a first request with a cursor or a fixed Idempotency-Key surprises.
        ...(required && examplesOf(operation, ({ parameters }) => parameters?.[name])),
      };
    }),
  );
}

/** The message of an example error, made by the functions that make those of the server. */
function messageOf(code: ErrorCode, { schema, operation: { scope } }: Route): string {
  if (code === 'invalid_parameter') {
    const { params, querystring, headers: fields } = schema;
    const properties = Object.entries({ ...params?.properties, ...querystring?.properties, ...fields?.properties });
    const faults = properties.slice(0, 2).map(([name, property]) => `${name} must ${requirementOf(property)}`);
    return `${faults.join('; ') || '"limit" is not a known query parameter'}.`;
  }
  if (code === 'invalid_body') return `${joinFaults(checkOf(schema.body as TObject)({ colour: 'brown' }))}.`;
  if (code === 'invalid_json') {
    try {
      readJson(Buffer.from('{"name":'));
    } catch (error) {
      return `The body is ${(error as Error).message}.`;
    }
  }
  return code === 'insufficient_scope' ? `The API key lacks the scope ${scope}.` : errorTable[code][1];
}

/** The component of a header, where another one has its name. */
const announcedLink = 'DeprecationLink';

function headerRefs(names: string[]): Json {
  return Object.fromEntries(names.map((name) => [name === announcedLink ? 'Link' : name, ref('headers', name)]));
}

const announced = ['Deprecation', 'Sunset', announcedLink];

function errorResponse(status: number, codes: ErrorCode[], route: Route): Json {
  const { text, headers: own = [], before } = meanings[status] as (typeof meanings)[string];
  const isAnnounced = route.operation.sunset !== undefined && before !== 'path';
  // The most exact one first, which mocks send.
  const ordered = codes.toSorted((one, other) => Number(one === 'bad_request') - Number(other === 'bad_request'));
  const values = ordered.map((code) => [code, { value: { code, message: messageOf(code, route), status } }]);
  return {
    description: `${text}: ${ordered.map((code) => `\`${code}\``).join(', ')}.`,
    headers: headerRefs([...alwaysSent, ...(before ? [] : rateHeaders), ...own, ...(isAnnounced ? announced : [])]),
    content: { 'application/json': { schema: ref('schemas', 'Error'), examples: Object.fromEntries(values) } },
  };
}

function errorResponses(codes: ErrorCode[], route: Route): Json {
  const byStatus = Map.groupBy(codes, (code) => errorTable[code][0]);
  return Object.fromEntries([...byStatus].map(([status, some]) => [status, errorResponse(status, some, route)]));
}

function responsesOf(route: Route, components: Components): Json {
  const { operation, method } = route;
  const { success, sunset } = operation;
  const responses = errorResponses(errorsOf(operation), route);
  if (!success) return responses;
  const sent = [...alwaysSent, ...rateHeaders, ...(success.headers ?? []), ...(sunset ? announced : [])];
  if (method === 'GET') sent.push('ETag', 'Vary');
  const { description, links, schema } = success;
  const body = { schema: schemaOf(schema, components), ...examplesOf(operation, ({ answer }) => answer) };
  const named = { headers: headerRefs(sent), content: { 'application/json': body }, ...(links && { links }) };
  responses[success.status] = { description, ...named };
  if (method === 'GET') responses[304] = { description: meanings[304]?.text, headers: named.headers };
  return responses;
}

/** The codes that an operation can return, in the order of their table. */
export function errorsOf({ errors, scope, success }: Operation): ErrorCode[] {
  const conditional: ErrorCode[] = success ? ['precondition_failed'] : [];
  const scoped: ErrorCode[] = scope ? ['insufficient_scope'] : [];
  const codes = [...commonErrors, 'invalid_parameter', ...errors, ...conditional, ...scoped];
  return (Object.keys(errorTable) as ErrorCode[]).filter((code) => codes.includes(code));
}

function marksOf({ sunset, stability, hideTryItPanel }: Operation): Json {
  return {
    ...(sunset && { deprecated: true, 'x-deprecated-sunset': sunset.toISOString().slice(0, 10) }),
    ...(stability && { 'x-stability': stability }),
    ...(hideTryItPanel && { 'x-hideTryItPanel': true }),
  };
}

export function describeOperation(route: Route, components: Components): Json {
  const { schema, operation, method } = route;
  const { operationId, tags, summary, description, scope, success } = operation;
  const parameters = parametersOf(route, components);
  if (method === 'GET' && success) parameters.push({ ...ifNoneMatch });
  const body = schema.body && {
    description: schema.body.description,
    required: true,
    content: {
      'application/json': {
        schema: schemaOf(schema.body, components),
        ...examplesOf(operation, (example) => example.body),
      },
    },
  };
  return {
    operationId,
    tags,
    summary,
    description,
    ...marksOf(operation),
    security: [{ apiKey: scope ? [scope] : [] }],
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: body }),
    responses: responsesOf(route, components),
  };
}
