/** Prepares the operations of a document for the template of the page. */
import { dateText } from '../../src/core/deprecation.ts';
import { type ErrorCode, errorMessages } from '../../src/core/errors.ts';
import {
  type Body,
  type Document,
  examplesOf,
  type Header,
  type Media,
  nameOf,
  type Operation,
  type Parameter,
  type Response,
  resolve,
  type Schema,
  toJson,
} from './document.ts';
import { type Describe, type Field, fieldsOf, type Place } from './fields.ts';
import { type Sample, samplesOf } from './samples.ts';
import { toHtml, toInlineHtml } from './text.ts';

interface Shown {
  summary: string | undefined;
  json: string;
}

interface ParameterView extends Field {
  /** `petId`, as part of the ids of the page. */
  id: string;
  in: Parameter['in'];
  example: string | undefined;
  choices: string[];
}

interface Success {
  status: string;
  /** HTML. */
  text: string;
  /** HTML; undefined if there is no body. */
  type: string | undefined;
  headers: string[];
  examples: Shown[];
  /** HTML of the operations that can follow. */
  links: string[];
}

interface ErrorResponse {
  status: string;
  codes: string[];
  headers: string[];
  /** Examples whose messages are not in the table of errors: they name what is wrong. */
  examples: Shown[];
}

export interface OperationView {
  id: string;
  method: string;
  path: string;
  title: string;
  operationId: string;
  deprecated: boolean;
  stability: string | undefined;
  /** Date of the removal, as YYYY-MM-DD. */
  sunset: string | undefined;
  /** The same in words. */
  removal: string | undefined;
  scopes: string[];
  /** HTML. */
  text: string;
  parameters: Map<string, ParameterView[]>;
  body: { text: string; fields: Field[]; examples: Shown[] } | undefined;
  responses: Success[];
  errors: ErrorResponse[];
  hasCommonErrors: boolean;
  samples: Sample[];
  /** The examples of all responses. */
  answers: { title: string; json: string }[];
  /** Whether the page has a panel for it. */
  canTry: boolean;
}

export interface Group {
  name: string;
  /** HTML. */
  text: string;
  operations: OperationView[];
}

// The introduction says what HEAD and OPTIONS do: they have no entries.
const methods = ['get', 'post', 'put', 'patch', 'delete'];
const places = { path: 'Path parameters', query: 'Query parameters', header: 'Request headers', cookie: 'Cookies' };

const operationTag = ({ tags: [tag] = [] }: Operation) => tag ?? 'Operations';

/** The id that the rel="deprecation" link names, too. */
const operationId = (slug: string, operation: Operation) =>
  `${slug}/tag/${operationTag(operation).toLowerCase()}/${operation.operationId}`;

/** All operations with an entry of their own, in the order of the document. */
export const operationsOf = ({ paths }: Document) =>
  Object.entries(paths).flatMap(([path, item]) =>
    methods.flatMap((method) => (item[method] ? [{ path, item, method, operation: item[method] }] : [])),
  );

const jsonMedia = (content: Record<string, Media> | undefined) => Object.values(content ?? {})[0];

interface Context extends Describe {
  slug: string;
  server: string;
  /** The headers that are not named at each response. */
  commonHeaders: Set<string>;
  /** The error codes that are not named at each operation. */
  commonErrors: Set<string>;
}

const show = ({ document }: Context, media: Media | undefined): Shown[] =>
  media ? examplesOf(document, media).map(({ summary, value }) => ({ summary, json: toJson(value, 2) })) : [];

function parameterView(context: Context, operation: Operation, parameter: Parameter): ParameterView {
  const { document, slug, describe, tell } = context;
  const place = { id: operationId(slug, operation), title: operation.summary };
  const { name, required = false, description, schema } = parameter;
  const { enum: choices = [] } = resolve(document, schema) as Schema;
  const [example] = examplesOf(document, parameter);
  return {
    id: `${operation.operationId}-${name}`,
    name,
    in: parameter.in,
    required,
    type: toInlineHtml(describe(schema)),
    text: tell(name, description, place),
    choices: choices.map(String),
    example: example && String(example.value),
  };
}

function successView(context: Context, status: string, response: Response): Success {
  const { document, slug, describe, commonHeaders } = context;
  const media = jsonMedia(response.content);
  const links = Object.values(response.links ?? {}).map((given) => {
    const { operationId: target, description } = resolve(document, given);
    const found = operationsOf(document).find(({ operation }) => operation.operationId === target);
    const name = found ? `[${found.operation.summary}](#${operationId(slug, found.operation)})` : target;
    return toInlineHtml(`Next: ${name}.${description ? ` ${description}` : ''}`);
  });
  return {
    status,
    text: toInlineHtml(response.description),
    type: media && toInlineHtml(describe(media.schema)),
    headers: headersOf(response, commonHeaders),
    examples: show(context, media),
    links,
  };
}

const headersOf = ({ headers = {} }: Response, common: Set<string>) =>
  Object.keys(headers).filter((name) => !common.has(name));

type ErrorExample = { code: ErrorCode; message: string };

function errorBodies(document: Document, response: Response): ErrorExample[] {
  const media = jsonMedia(response.content);
  return media ? examplesOf(document, media).map(({ value }) => value as ErrorExample) : [];
}

function errorView(context: Context, status: string, response: Response, known: Set<string>): ErrorResponse {
  const { commonHeaders, commonErrors } = context;
  const bodies = errorBodies(context.document, response);
  return {
    status,
    codes: bodies.map(({ code }) => code).filter((code) => !commonErrors.has(code)),
    headers: headersOf(response, new Set([...commonHeaders, ...known])),
    examples: bodies
      .filter(({ code, message }) => errorMessages[code] !== message)
      .map((body) => ({ summary: body.code, json: toJson(body, 2) })),
  };
}

type Found = ReturnType<typeof operationsOf>[number];

export function operationView(context: Context, { path, item, method, operation }: Found): OperationView {
  const { document, slug, server } = context;
  const sunset = operation['x-deprecated-sunset'];
  const place: Place = { id: operationId(slug, operation), title: operation.summary };
  const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])]
    .map((parameter) => resolve<Parameter>(document, parameter))
    .map((parameter) => parameterView(context, operation, parameter));
  const body = operation.requestBody && resolve<Body>(document, operation.requestBody);
  const media = jsonMedia(body?.content);
  const examples = show(context, media);
  if (media && examples.length === 0)
    examples.push({ summary: undefined, json: toJson(exampleOf(document, media.schema), 2) });
  const responses = Object.entries(operation.responses).map(
    ([status, response]) => [status, resolve<Response>(document, response)] as const,
  );
  const [first] = examples;
  const successes = responses
    .filter(([status]) => !/^[45]/.test(status))
    .map(([status, response]) => successView(context, status, response));
  const known = new Set(successes.flatMap(({ headers }) => headers));
  // Operations share responses with a deprecated one, which alone sends these headers.
  if (!operation.deprecated) for (const name of ['Deprecation', 'Sunset', 'Link']) known.add(name);
  const errors = responses
    .filter(([status]) => /^[45]/.test(status))
    .map(([status, response]) => errorView(context, status, response, known))
    .filter(({ codes }) => codes.length > 0);
  const url =
    server + path.replace(/\{(\w+)\}/g, (_, name) => parameters.find((given) => given.name === name)?.example ?? name);
  return {
    id: place.id,
    method: method.toUpperCase(),
    path,
    title: place.title,
    operationId: operation.operationId,
    deprecated: operation.deprecated ?? false,
    stability: operation['x-stability'],
    sunset,
    removal: sunset && dateText(new Date(sunset)),
    scopes: (operation.security ?? []).flatMap((scheme) => Object.values(scheme).flat()),
    text: toHtml(operation.description),
    parameters: Map.groupBy(parameters, (parameter) => places[parameter.in]),
    body: media && { text: toHtml(body?.description), fields: fieldsOf(context, media.schema, place), examples },
    responses: successes,
    errors,
    hasCommonErrors: context.commonErrors.size > 0,
    answers: [...successes, ...errors].flatMap(({ status, examples: shown }) =>
      shown.map(({ summary, json }) => ({ title: summary ? `${status}: ${summary}` : status, json })),
    ),
    samples: samplesOf({
      method: method.toUpperCase(),
      url,
      body: first && toJson(JSON.parse(first.json, keepDigits)),
    }),
    canTry: operation['x-hideTryItPanel'] !== true,
  };
}

/** A reviver for JSON.parse: integers become bigints. */
function keepDigits(_: string, value: unknown, { source }: { source?: string } = {}): unknown {
  return typeof value === 'number' && source && /^-?\d+$/.test(source) ? BigInt(source) : value;
}

/** An example of a schema, made from the examples of its fields. */
function exampleOf(document: Document, schema: Schema): unknown {
  const { examples, enum: values, default: initial, items, properties } = resolve(document, schema) as Schema;
  if (properties)
    return Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, exampleOf(document, field)]));
  return items ? [exampleOf(document, items)] : (examples?.[0] ?? initial ?? values?.[0] ?? null);
}

/** The error codes of the operations. `common`: those of every operation, if there are several. */
export function codesOf(document: Document): { all: ErrorCode[]; common: Set<ErrorCode> } {
  const lists = operationsOf(document).map(({ operation }) => {
    const responses = Object.entries(operation.responses).filter(([status]) => /^[45]/.test(status));
    return responses.flatMap(([, given]) => errorBodies(document, resolve(document, given)).map(({ code }) => code));
  });
  const [first = [], ...others] = lists;
  const common = others.length === 0 ? [] : first.filter((code) => others.every((codes) => codes.includes(code)));
  return { all: lists.flat(), common: new Set(common) };
}

/** The headers that every success has, and the others. */
export function responseHeaders(document: Document): { common: [string, Header][]; others: [string, Header][] } {
  const responses = operationsOf(document)
    .flatMap(({ operation }) => Object.entries(operation.responses))
    .map(([status, given]) => ({ status, headers: resolve<Response>(document, given).headers ?? {} }));
  const successes = responses.filter(({ status }) => status.startsWith('2'));
  const all = new Map(
    responses
      .flatMap(({ headers }) => Object.entries(headers))
      .map(([name, given]) => [name, resolve<Header>(document, given)]),
  );
  const { common = [], others = [] } = Object.groupBy(all, ([name]) =>
    successes.every(({ headers }) => name in headers) ? 'common' : 'others',
  );
  return { common, others };
}

/** The names of the schemas that the page describes apart: objects that no request body consists of. */
export function modelsOf(document: Document): string[] {
  const bodies = operationsOf(document).flatMap(({ operation: { requestBody } }) =>
    requestBody ? Object.values(resolve<Body>(document, requestBody).content) : [],
  );
  const sent = new Set(bodies.map(({ schema }) => schema.$ref && nameOf(schema.$ref)));
  return Object.entries(document.components.schemas)
    .filter(([name, { properties }]) => properties && !sent.has(name))
    .map(([name]) => name);
}
