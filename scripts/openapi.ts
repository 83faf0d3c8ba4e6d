/** Generates the OpenAPI documents from the routes: their schemas, their operations and the table of error codes. */
import { pino } from 'pino';
import { Document, isCollection, isPair, isScalar, parse, visit } from 'yaml';
import { buildApp } from '../src/app.ts';
import type { ErrorCode } from '../src/core/errors.ts';
import { createMetrics } from '../src/http/metrics.ts';
import { toBruno, toPostman } from './openapi/collections.ts';
import type { Components, Json } from './openapi/components.ts';
import { bearerFormat, documents, keys, toMarkdown } from './openapi/introduction.ts';
import { describeOperation, errorsOf, type Route } from './openapi/operations.ts';
import { shareAll } from './openapi/share.ts';
import { toVersion30 } from './openapi/version-3.0.ts';
import { frames, headers } from './openapi/words.ts';

type DocumentName = keyof typeof documents;

/**
 * The schema of error bodies. Generators make a closed type of an `enum`, which would reject a new code, and plain text of `anyOf` with a string.
 * `x-extensible-enum` lists the codes for programs, and changes no generated type.
 */
function describeErrors(codes: ErrorCode[]): Json {
  return {
    description: 'The body of every error response.',
    type: 'object',
    required: ['code', 'message', 'status'],
    properties: {
      code: {
        minLength: 1,
        pattern: '^[a-z_]+$',
        description: 'Machine-readable error code. New codes may be added; existing codes never change their meaning.',
        examples: ['invalid_parameter'],
        type: 'string',
        'x-extensible-enum': codes,
      },
      message: {
        minLength: 1,
        description: 'Human-readable description. It names each invalid field or parameter.',
        examples: ['limit must be an integer from 1 to 100.'],
        type: 'string',
      },
      status: {
        minimum: 400,
        maximum: 599,
        description: 'The HTTP status code of the response.',
        examples: [400],
        type: 'integer',
      },
    },
  };
}

/** One document, as a value. */
function describeDocument(name: DocumentName, routes: Route[]): Json {
  const { prefix, introduce } = documents[name];
  const frame = frames[name];
  const components: Components = { parameters: {}, headers: {}, responses: {}, schemas: {}, examples: {} };
  const inDocument = routes.filter(({ url }) => url.startsWith(`${prefix}/`));
  const operations = inDocument.map(({ operation }) => operation);
  const introduction = introduce(operations.flatMap(errorsOf));
  components.schemas.Error = describeErrors(introduction.errors.rows.map(({ code }) => code));
  const paths: Record<string, Record<string, Json>> = {};
  for (const route of inDocument) {
    const path = route.url.slice(prefix.length).replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: describeOperation(route, components) };
  }
  shareAll(Object.values(paths).flatMap(Object.values), components);
  const written = JSON.stringify({ paths, responses: components.responses });
  components.headers = Object.fromEntries(
    Object.entries(headers).filter(([header]) => written.includes(`"#/components/headers/${header}"`)),
  );
  const { source, form } = keys;
  return {
    ...frame,
    info: { ...frame?.info, description: toMarkdown(introduction) },
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', bearerFormat, description: `${source}\n\n${form}` },
      },
      ...Object.fromEntries(Object.entries(components).filter(([, section]) => Object.keys(section).length > 0)),
    },
  };
}

/** The operations of the server, in the order of their routes. */
async function readRoutes(): Promise<Route[]> {
  const routes: Route[] = [];
  const app = await buildApp({
    store: { pets: {}, measure: () => ({ failedWrites: {} }) } as never,
    logger: pino({ level: 'silent' }),
    logRequest: () => undefined,
    now: () => new Date(),
    live: false,
    signUp: 'none',
    quickstartBasePath: documents['openapi.quickstart.yaml'].prefix,
    enforceSunset: true,
    metrics: createMetrics(''),
    maxConnections: 1,
    draining: () => false,
    readFile: async () => Buffer.from(''),
    watch: async (bare) => {
      bare.addHook('onRoute', ({ method, url, schema, config }) => {
        if (config?.operation === undefined || method === 'HEAD') return;
        routes.push({
          method: String(method),
          url,
          schema: (schema ?? {}) as Route['schema'],
          operation: config.operation,
        });
      });
    },
  });
  await app.ready();
  return routes;
}

/** A collection is written on one line if it is no longer than this, and has no inner collection or no other item. */
const maxLine = 120;

function isOneLine(node: unknown): boolean {
  if (isScalar(node)) return !/\n/.test(String(node.value));
  if (!isCollection(node) || JSON.stringify(node).length > maxLine) return false;
  const children = node.items.map((item) => (isPair(item) ? item.value : item));
  return children.every((child) => isOneLine(child) && (children.length === 1 || !isCollection(child)));
}

/**
 * As YAML that readers of versions 1.1 and 1.2 read alike. Inside {} and [], 1.1 takes more characters for syntax (https://yaml.org/spec/1.1/, ns-plain);
 * dates, `yes`, `010` and `=` are no text there.
 */
export function toYaml(value: Json): string {
  const document = new Document(value, { aliasDuplicateObjects: false, compat: 'yaml-1.1' });
  visit(document, {
    Collection(_key, node) {
      node.flow = isOneLine(node);
    },
    Scalar(_key, node, path) {
      const isInFlow = path.findLast(isCollection)?.flow;
      if (typeof node.value === 'string' && (isInFlow ? /[\t:?,[\]{}]|^=$/ : /\t|^=$/).test(node.value))
        node.type = 'QUOTE_DOUBLE';
    },
  });
  return document.toString({ lineWidth: 0 });
}

/** Generates the documents from the current code, and the same for tools that do not read OpenAPI 3.1. */
export async function generateDocuments() {
  const routes = await readRoutes();
  const generate = (name: DocumentName) => toYaml(describeDocument(name, routes));
  const store = generate('openapi.yaml');
  const toJson = (value: object) => `${JSON.stringify(value, null, 2)}\n`;
  return {
    'openapi.yaml': store,
    'openapi.quickstart.yaml': generate('openapi.quickstart.yaml'),
    'openapi-3.0.json': toJson(toVersion30(parse(store))),
    'openapi-postman.json': toJson(toPostman(store)),
    'openapi-bruno.yml': toYaml(toBruno(store)),
  };
}
