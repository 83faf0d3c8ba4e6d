/** Prepares the operations of a document for the template of the page. */
import { dateText } from '../../src/core/deprecation.ts';
import { type ErrorCode, errorTable } from '../../src/core/errors.ts';
import {
  type Document,
  type Example,
  examplesOf,
  type Operation,
  type Parameter,
  type Response,
  toJson,
} from './document.ts';
import { type Describe, fieldsOf } from './fields.ts';
import { highlight } from './highlight.ts';
import { samplesOf } from './samples.ts';
import { toHtml, toInlineHtml } from './text.ts';

// The introduction says what HEAD and OPTIONS do: they have no entries.
const methods = ['get', 'post', 'put', 'patch', 'delete'];
const places = { path: 'Path parameters', query: 'Query parameters', header: 'Request headers' };

/** The header that the samples have a value of: with it a retry adds nothing twice. */
const retryKey = 'Idempotency-Key';

/** Of the samples. The document has none: tools would send it with every request. */
const sampleKey = '7d9f0d3a-1f0b-4c56-9f8e-2f1c7c1f0e55';

const retryHelp = 'A UUID, made anew for each animal. A retry with the same one adds nothing twice.';

/** All operations with an entry of their own, in the order of the document. */
export const operationsOf = ({ paths }: Document) =>
  Object.entries(paths).flatMap(([path, item]) =>
    methods.flatMap((method) =>
      item[method] ? [{ path, method: method.toUpperCase(), operation: item[method] }] : [],
    ),
  );

export interface Context extends Describe {
  document: Document;
  slug: string;
  server: string;
  /** The headers that are not named at each response. */
  commonHeaders: string[];
  /** The error codes that are not named at each operation. */
  commonErrors: ErrorCode[];
}

/** Its id is also in the rel="deprecation" link. */
const placeOf = (slug: string, { tags: [tag], operationId, summary }: Operation) => ({
  id: `${slug}/tag/${tag.toLowerCase()}/${operationId}`,
  title: summary,
});

function show({ summary, value }: Example) {
  const json = toJson(value, 2);
  return { summary, json, html: highlight(json, 'json') };
}

const isError = (status: string) => /^[45]/.test(status);
const mediaOf = ({ content }: Pick<Response, 'content'>) => content?.['application/json'];

/** The texts and types of these views are HTML. */
function parameterView({ describe }: Context, operationId: string, parameter: Parameter) {
  const { name, required = false, description, schema } = parameter;
  const [example] = examplesOf(parameter);
  return {
    // As part of the ids of the page.
    id: `${operationId}-${name}`,
    name,
    in: parameter.in,
    required,
    type: toInlineHtml(describe(schema)),
    text: toInlineHtml(description),
    /** For the panel. */
    help: toInlineHtml(
      name === retryKey ? retryHelp : /^.*?[^.][.:](?= |$)/.exec(description ?? '')?.[0].replace(/:$/, '.'),
    ),
    placeholder: schema.default === undefined ? undefined : String(schema.default),
    choices: schema.enum?.map(String) ?? [],
    example: name === retryKey ? sampleKey : example && String(example.value),
    /** Whether the panel makes a value. */
    isRetryKey: name === retryKey,
  };
}

const headersOf = ({ headers = {} }: Response, known: string[]) =>
  Object.keys(headers).filter((name) => !known.includes(name));

function successView({ describe, commonHeaders }: Context, status: string, response: Response) {
  const media = mediaOf(response);
  return {
    status,
    text: toInlineHtml(response.description),
    type: media && toInlineHtml(describe(media.schema)),
    headers: headersOf(response, commonHeaders),
    examples: media ? examplesOf(media).map(show) : [],
  };
}

const errorBodies = (response: Response) => {
  const media = mediaOf(response);
  return media ? examplesOf(media).map(({ value }) => value as { code: ErrorCode; message: string }) : [];
};

function errorView({ commonErrors }: Context, status: string, response: Response, known: string[]) {
  const bodies = errorBodies(response);
  return {
    status,
    codes: bodies.map(({ code }) => code).filter((code) => !commonErrors.includes(code)),
    headers: headersOf(response, known),
    // What is most often wrong, and those whose messages are not in the table of errors: they name what is wrong.
    examples: bodies
      .filter(({ code, message }) => status === '404' || errorTable[code][1] !== message)
      .map((body) => show({ summary: body.code, value: body })),
  };
}

export function operationView(context: Context, { path, method, operation }: ReturnType<typeof operationsOf>[number]) {
  const { operationId, deprecated = false, requestBody, 'x-deprecated-sunset': sunset } = operation;
  const place = placeOf(context.slug, operation);
  const parameters = (operation.parameters ?? []).map((parameter) => parameterView(context, operationId, parameter));
  const media = requestBody && mediaOf(requestBody);
  const examples = media ? examplesOf(media) : [];
  const responses = Object.entries(operation.responses);
  const successes = responses
    .filter(([status]) => !isError(status))
    .map(([status, response]) => successView(context, status, response));
  const known = [...context.commonHeaders, ...successes.flatMap(({ headers }) => headers)];
  // Operations share responses with a deprecated one, which alone sends these headers.
  if (!deprecated) known.push('Deprecation', 'Sunset', 'Link');
  const errors = responses
    .filter(([status]) => isError(status))
    .map(([status, response]) => errorView(context, status, response, known))
    .filter(({ codes }) => codes.length > 0);
  const [, result] = responses.find(([status]) => status.startsWith('2')) ?? [];
  const resultSchema = result && mediaOf(result)?.schema;
  const values = new Map(parameters.map(({ name, example }) => [name, example]));
  return {
    ...place,
    method,
    path,
    operationId,
    deprecated,
    stability: operation['x-stability'],
    sunset,
    removal: sunset && dateText(new Date(sunset)),
    scopes: (operation.security ?? []).flatMap(({ apiKey }) => apiKey),
    text: toHtml(operation.description),
    parameters: Map.groupBy(parameters, (parameter) => places[parameter.in]),
    address: context.server + path,
    inputs: parameters.filter((parameter) => parameter.in !== 'header'),
    headerInputs: parameters.filter((parameter) => parameter.in === 'header'),
    body: media && {
      text: toHtml(requestBody.description),
      type: toInlineHtml(context.describe(media.schema)),
      fields: fieldsOf(context, media.schema),
      examples: examples.map(show),
    },
    responses: successes,
    errors,
    hasCommonErrors: context.commonErrors.length > 0,
    answers: [...successes, ...errors].filter(({ examples: shown }) => shown.length > 0),
    samples: samplesOf({
      method,
      url: context.server + path.replace(/\{(\w+)\}/g, (_, name: string) => values.get(name) ?? name),
      headers: parameters
        .filter((parameter) => parameter.in === 'header')
        .map(({ name, example, isRetryKey }) => ({ name, value: isRetryKey ? example : undefined })),
      body: examples[0] && toJson(examples[0].value),
      hasBigInteger: toJson(resultSchema ?? {}).includes('int64'),
    }),
    canTry: operation['x-hideTryItPanel'] !== true,
  };
}

/** The error codes of the operations. `common`: those of every operation, if there are several. */
export function codesOf(document: Document): { all: ErrorCode[]; common: ErrorCode[] } {
  const [first = [], ...others] = operationsOf(document).map(({ operation: { responses } }) =>
    Object.keys(responses)
      .filter(isError)
      .flatMap((status) => errorBodies(responses[status] as Response).map(({ code }) => code)),
  );
  const common = first.filter((code) => others.length > 0 && others.every((codes) => codes.includes(code)));
  return { all: [first, ...others].flat(), common };
}

/** The names and texts of the headers that every success has, and of the others. */
export function responseHeaders(document: Document) {
  const responses = operationsOf(document).flatMap(({ operation }) => Object.entries(operation.responses));
  const successes = responses.filter(([status]) => status.startsWith('2'));
  const all = new Map(responses.flatMap(([, { headers = {} }]) => Object.entries(headers)));
  const shown = [...all].map(([name, { description }]) => ({ name, text: toInlineHtml(description) }));
  const { common = [], others = [] } = Object.groupBy(shown, ({ name }) =>
    successes.every(([, { headers = {} }]) => name in headers) ? 'common' : 'others',
  );
  return { common, others };
}

/** The schemas that the page describes apart: objects and enumerations. */
export const modelsOf = ({ components }: Document) =>
  Object.entries(components.schemas).filter(([, schema]) => schema.properties ?? schema.enum);
