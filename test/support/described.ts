/** The OpenAPI documents, with the operations that they describe in words: HEAD and OPTIONS of each path. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

interface Reference {
  $ref?: string;
}
interface Example extends Reference {
  value?: { code: string };
}
export interface Response extends Reference {
  headers?: Record<string, { $ref: string }>;
  content?: Record<string, { schema: object; examples?: Record<string, Example> }>;
  links?: object;
}
interface Parameter extends Reference {
  name: string;
  in: string;
}
interface Operation {
  operationId: string;
  deprecated?: boolean;
  security: [{ apiKey: string[] }];
  parameters?: Parameter[];
  responses: Record<string, Response>;
}
export interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: {
    responses: Record<string, Response>;
    headers: Record<string, { required?: boolean; example?: unknown }>;
    examples: Record<string, Example>;
  };
}

/** The documents, with the base path of each on the server. */
export const prefixes = { 'openapi.yaml': '/v1', 'openapi.quickstart.yaml': '/quickstart' } as const;
export const documentNames = Object.keys(prefixes) as (keyof typeof prefixes)[];

export const nameIn = ($ref: string) => $ref.split('/').at(-1) as string;

const responseOf = ({ components }: Document, response: Response): Response =>
  response.$ref === undefined ? response : (components.responses[nameIn(response.$ref)] as Response);

/** The status and the headers of GET, without a body. */
function describeHead(document: Document, path: string, get: Operation): Operation {
  const bare = Object.entries(get.responses).map(([status, response]) => {
    const { content: _, links: __, ...rest } = responseOf(document, response);
    return [status, rest];
  });
  return { ...get, operationId: `HEAD ${path}`, responses: Object.fromEntries(bare) };
}

/** The errors that precede an operation's own work: they come from HTTP, from the API key or from the server. */
const before = ['400', '401', '408', '414', '417', '429', '431', '500', '503'];

/** `methods`: the operations of the path. */
function describeOptions(document: Document, path: string, methods: Operation[]): Operation {
  const [first] = methods as [Operation];
  const errors = before.map((status) => [status, responseOf(document, first.responses[status] ?? {})] as const);
  const responses = structuredClone(Object.fromEntries(errors));
  const { headers, content } = responses['400'] as Response;
  for (const { examples = {} } of Object.values(content ?? {}))
    for (const code of Object.keys(examples)) if (!['bad_request', 'invalid_url'].includes(code)) delete examples[code];
  const { 'Cache-Control': _, ...sent } = headers ?? {};
  responses['204'] = { headers: { ...sent, Allow: { $ref: '#/components/headers/Allow' } } };
  const parameters = (first.parameters ?? []).filter((parameter) => parameter.in === 'path');
  return {
    operationId: `OPTIONS ${path}`,
    // Its query and its body are ignored, and the parameters of its path are not checked.
    parameters: parameters.map(({ name }) => {
      return { name, in: 'path', required: true, schema: { type: 'string' }, example: '1' };
    }),
    deprecated: methods.every(({ deprecated }) => deprecated === true),
    security: [{ apiKey: [] }],
    responses,
  };
}

/** A document as the file has it. */
export const readFile = (name: keyof typeof prefixes): Document =>
  parse(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'));

export function readDocument(name: keyof typeof prefixes): Document {
  const document = readFile(name);
  document.components.headers.Allow = { required: true, example: 'GET, HEAD, POST, OPTIONS' };
  for (const [path, item] of Object.entries(document.paths)) {
    const methods = Object.values(item);
    if (item.get) item.head = describeHead(document, path, item.get);
    item.options = describeOptions(document, path, methods);
  }
  return document;
}
