/** Prepares the operations of a document for the template of the page. */
import { dateText } from '../../src/core/deprecation.ts';
import { type ErrorCode, errorMessages } from '../../src/core/errors.ts';
import {
  type Body,
  type Document,
  type Example,
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
import { type Describe, fieldsOf, type Place } from './fields.ts';
import { highlight } from './highlight.ts';
import { samplesOf } from './samples.ts';
import { toHtml, toInlineHtml } from './text.ts';
import { typesOf } from './types.ts';

export interface Group {
  name: string;
  /** HTML. */
  text: string;
  operations: ReturnType<typeof operationView>[];
}

// The introduction says what HEAD and OPTIONS do: they have no entries.
const methods = ['get', 'post', 'put', 'patch', 'delete'];
const places = { path: 'Path parameters', query: 'Query parameters', header: 'Request headers', cookie: 'Cookies' };

/** The header that the samples have a value of: with it a retry adds nothing twice. */
const retryKey = 'Idempotency-Key';

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

function show({ summary, value }: Example) {
  const json = toJson(value, 2);
  return { summary, json, html: highlight(json, 'json') };
}

const isError = (status: string) => /^[45]/.test(status);

const responsesOf = (document: Document, { responses }: Operation) =>
  Object.entries(responses).map(([status, given]) => ({ status, response: resolve<Response>(document, given) }));

/** The texts and types of these views are HTML. */
function parameterView(context: Context, operation: Operation, parameter: Parameter) {
  const { document, slug, describe, tell } = context;
  const place = { id: operationId(slug, operation), title: operation.summary };
  const { name, required = false, description, schema } = parameter;
  const { enum: choices = [] } = resolve(document, schema) as Schema;
  const [example] = examplesOf(document, parameter);
  return {
    // As part of the ids of the page.
    id: `${operation.operationId}-${name}`,
    name,
    in: parameter.in,
    required,
    type: toInlineHtml(describe(schema)),
    text: tell(name, description, place),
    choices: choices.map(String),
    example: example && String(example.value),
    /** Whether the panel makes a value. */
    isRetryKey: parameter.in === 'header' && name === retryKey,
  };
}

function successView(context: Context, status: string, response: Response) {
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
    examples: media ? examplesOf(document, media).map(show) : [],
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

function errorView(context: Context, status: string, response: Response, known: Set<string>) {
  const { commonHeaders, commonErrors } = context;
  const bodies = errorBodies(context.document, response);
  return {
    status,
    codes: bodies.map(({ code }) => code).filter((code) => !commonErrors.has(code)),
    headers: headersOf(response, new Set([...commonHeaders, ...known])),
    // Those whose messages are not in the table of errors: they name what is wrong.
    examples: bodies
      .filter(({ code, message }) => errorMessages[code] !== message)
      .map((body) => show({ summary: body.code, value: body })),
  };
}

type Found = ReturnType<typeof operationsOf>[number];

export function operationView(context: Context, { path, item, method, operation }: Found) {
  const { document, slug, server } = context;
  const sunset = operation['x-deprecated-sunset'];
  const place: Place = { id: operationId(slug, operation), title: operation.summary };
  const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])]
    .map((parameter) => resolve<Parameter>(document, parameter))
    .map((parameter) => parameterView(context, operation, parameter));
  const body = operation.requestBody && resolve<Body>(document, operation.requestBody);
  const media = jsonMedia(body?.content);
  const examples = media ? examplesOf(document, media) : [];
  if (media && examples.length === 0) examples.push({ value: exampleOf(document, media.schema) });
  const [first] = examples;
  const responses = responsesOf(document, operation);
  const successes = responses
    .filter(({ status }) => !isError(status))
    .map(({ status, response }) => successView(context, status, response));
  const [resultSchema] = responses
    .filter(({ status }) => status.startsWith('2'))
    .flatMap(({ response }) => jsonMedia(response.content)?.schema ?? []);
  const known = new Set(successes.flatMap(({ headers }) => headers));
  // Operations share responses with a deprecated one, which alone sends these headers.
  if (!operation.deprecated) for (const name of ['Deprecation', 'Sunset', 'Link']) known.add(name);
  const errors = responses
    .filter(({ status }) => isError(status))
    .map(({ status, response }) => errorView(context, status, response, known))
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
    body: media && {
      text: toHtml(body?.description),
      fields: fieldsOf(context, media.schema, place),
      examples: examples.map(show),
    },
    responses: successes,
    errors,
    hasCommonErrors: context.commonErrors.size > 0,
    answers: [...successes, ...errors].flatMap(({ status, examples: shown }) =>
      shown.map(({ summary, html }) => ({ title: summary ? `${status}: ${summary}` : status, html })),
    ),
    samples: samplesOf({
      method: method.toUpperCase(),
      url,
      headers: parameters
        .filter((parameter) => parameter.in === 'header')
        .map(({ name, example, isRetryKey }) => ({ name, value: isRetryKey ? example : undefined })),
      body: first && toJson(first.value),
      types: resultSchema && typesOf(document, resultSchema),
    }),
    canTry: operation['x-hideTryItPanel'] !== true,
  };
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
    const responses = responsesOf(document, operation).filter(({ status }) => isError(status));
    return responses.flatMap(({ response }) => errorBodies(document, response).map(({ code }) => code));
  });
  const [first = [], ...others] = lists;
  const common = others.length === 0 ? [] : first.filter((code) => others.every((codes) => codes.includes(code)));
  return { all: lists.flat(), common: new Set(common) };
}

/** The headers that every success has, and the others. */
export function responseHeaders(document: Document): { common: [string, Header][]; others: [string, Header][] } {
  const responses = operationsOf(document).flatMap(({ operation }) => responsesOf(document, operation));
  const successes = responses.filter(({ status }) => status.startsWith('2'));
  const headers = responses.flatMap(({ response }) => Object.entries(response.headers ?? {}));
  const all = new Map(headers.map(([name, given]) => [name, resolve<Header>(document, given)]));
  const { common = [], others = [] } = Object.groupBy(all, ([name]) =>
    successes.every(({ response }) => name in (response.headers ?? {})) ? 'common' : 'others',
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
