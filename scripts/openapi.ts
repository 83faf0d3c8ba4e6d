/** Generates the OpenAPI documents from the routes: their schemas, their operations and the table of error codes. */
import { pino } from 'pino';
import { Document, isCollection, isPair, isScalar, visit } from 'yaml';
import { buildApp } from '../src/app.ts';
import { ErrorBody } from '../src/http/errors.ts';
import { createMetrics } from '../src/http/metrics.ts';
import { type Components, type Json, schemaOf } from './openapi/components.ts';
import { bearerFormat, describeKeys, documents, toMarkdown } from './openapi/introduction.ts';
import {
  createIds,
  describeHead,
  describeOperation,
  describeOptions,
  errorsOf,
  type Route,
} from './openapi/operations.ts';
import { shareAll } from './openapi/share.ts';
import { headers } from './openapi/words.ts';

type DocumentName = keyof typeof documents;

/** The methods of one path. HEAD follows GET, and OPTIONS is the last. */
function describePath(path: string, routes: Route[], components: Components, idOf: ReturnType<typeof createIds>): Json {
  const methods = routes.flatMap((route): [string, Json][] => {
    const described = describeOperation(route, components);
    if (route.method !== 'GET') return [[route.method.toLowerCase(), described]];
    return [
      ['get', described],
      ['head', describeHead(idOf('head', route.operation), described, route, components)],
    ];
  });
  const { operation } = routes[0] as Route;
  const options = describeOptions(idOf('options', operation), path, routes, components);
  return { ...Object.fromEntries(methods), options };
}

/** One document, as a value. */
function describeDocument(name: DocumentName, routes: Omit<Route, 'deprecated'>[]): Json {
  const { prefix, title, introduce, servers, tags } = documents[name];
  const components: Components = { parameters: {}, headers: {}, responses: {}, schemas: {}, examples: {} };
  schemaOf(ErrorBody, components);
  const inDocument = routes.filter(({ url }) => url.startsWith(`${prefix}/`));
  const operations = inDocument.map(({ operation }) => operation);
  const deprecated = operations.filter(({ sunset }) => sunset !== undefined);
  const idOf = createIds(operations);
  const byPath = Map.groupBy(
    inDocument.map((route) => ({ ...route, deprecated })),
    ({ url }) => url.slice(prefix.length).replace(/:(\w+)/g, '{$1}'),
  );
  const paths = Object.fromEntries([...byPath].map(([path, own]) => [path, describePath(path, own, components, idOf)]));
  shareAll(
    Object.values(paths).flatMap((item) => Object.values(item as Record<string, Json>)),
    components,
  );
  const written = JSON.stringify({ paths, responses: components.responses });
  components.headers = Object.fromEntries(
    Object.entries(headers).filter(([header]) => written.includes(`"#/components/headers/${header}"`)),
  );
  const { source, form } = describeKeys(operations);
  return {
    openapi: '3.1.0',
    info: {
      title,
      description: toMarkdown(introduce(operations.flatMap(errorsOf))),
      version: '1.0.0',
      contact: { name: 'Animal Store', url: 'https://api.example.com' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers,
    tags,
    security: [{ apiKey: [] }],
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
async function readRoutes(): Promise<Omit<Route, 'deprecated'>[]> {
  const routes: Omit<Route, 'deprecated'>[] = [];
  const app = await buildApp({
    store: { pets: {}, measure: () => ({ waitingWrites: 0, walBytes: undefined }) } as never,
    logger: pino({ level: 'silent' }),
    logRequest: () => undefined,
    now: () => new Date(),
    live: false,
    quickstartBasePath: documents['openapi.quickstart.yaml'].prefix,
    enforceSunset: true,
    metrics: createMetrics(''),
    limits: { maxInFlight: 1, maxConnections: 1, refusalsPerMinute: 1 },
    draining: () => false,
    documents: { animalStore: '', quickstart: '' },
    readPageFile: async () => Buffer.from(''),
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

/** Collections without inner collections are written on one line, if it is no longer than this. */
const maxLine = 120;

/** As YAML that parsers of versions 1.1 and 1.2 read alike: 1.1 would take an unquoted date for more than text. */
function write(value: Json): string {
  const document = new Document(value, { aliasDuplicateObjects: false, compat: 'yaml-1.1' });
  visit(document, {
    Collection(_key, node) {
      const children = node.items.map((item) => (isPair(item) ? item.value : item));
      const isLeaf = !children.some(
        (child) => isCollection(child) || (isScalar(child) && /\n/.test(String(child.value))),
      );
      node.flow = isLeaf && JSON.stringify(node).length <= maxLine;
    },
  });
  return document.toString({ lineWidth: 0 });
}

/** Generates the documents from the current code, as YAML. */
export async function generateDocuments(): Promise<Record<DocumentName, string>> {
  const routes = await readRoutes();
  const generate = (name: DocumentName) => write(describeDocument(name, routes));
  return { 'openapi.yaml': generate('openapi.yaml'), 'openapi.quickstart.yaml': generate('openapi.quickstart.yaml') };
}
