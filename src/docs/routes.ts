/** Serves the OpenAPI documents and the reference pages. They need no API key. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { parse } from 'yaml';
import type { NotFound } from '../http/errors.ts';
import type { Exchanges } from '../http/exchange.ts';
import { linesOf } from '../http/head.ts';
import { refuseOtherMethods } from '../http/methods.ts';
import type { App } from '../http/operation.ts';
import { respond, sendRendered, standing } from '../http/responses.ts';
import { type Codings, chooseCoding, renderCodings } from './codings.ts';
import { prefersPage } from './not-found.ts';
import { pageHeaders } from './page-headers.ts';

export interface ReferencePageOptions {
  /** Reads a file of src/pages/. */
  readFile: (name: string) => Promise<Buffer>;
  /** The start of the page's URL: the public base address without /v1. */
  root: string;
  quickstartBasePath: string | undefined;
  /** Whether the server has the account pages, which the reference pages then link to. */
  accountPages: boolean;
  exchanges: Exchanges;
  notFound: NotFound;
}

const security = linesOf(Object.entries(pageHeaders).flat());

const pages = { '/docs': 'animal-store.html', '/docs/quickstart': 'quickstart.html' };
const files = {
  'choices.js': { type: 'text/javascript; charset=utf-8', parts: ['choices.js'] },
  'page.js': { type: 'text/javascript; charset=utf-8', parts: ['copy.js', 'reference.js'] },
  'page.css': { type: 'text/css; charset=utf-8', parts: ['style.css', 'reference.css'] },
  'icon.svg': { type: 'image/svg+xml', parts: ['icon.svg'] },
};

/** Fills in what depends on the settings. scripts/reference.ts made the rest of the page. */
function adaptPage(html: string, quickstartBasePath: string | undefined, accountPages: boolean): string {
  const conditions: Record<string, boolean> = {
    account: accountPages,
    'no account': !accountPages,
    quickstart: quickstartBasePath !== undefined,
  };
  return html
    .replace(/ *<!-- if ([\w ]+) -->\n(.*?) *<!-- end -->\n/gs, (_, name: string, part: string) =>
      conditions[name] ? part : '',
    )
    .replaceAll('{{quickstart}}', quickstartBasePath?.slice(1) ?? '');
}

/** Calls `make` on the first call and returns the same result from then on. If `make` fails, the next call tries again. */
function once<Made>(make: () => Promise<Made>): () => Promise<Made> {
  let made: Promise<Made> | undefined;
  return () => {
    made ??= make().catch((error) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

export function referencePageRoutes(
  app: App,
  { readFile, root, quickstartBasePath, accountPages, exchanges, notFound }: ReferencePageOptions,
): void {
  function serve(url: string, type: string, read: () => Promise<string>): void {
    const codings = once(async () => renderCodings(await read(), { security, type }));
    app.get(url, async (request, reply) => sendRendered(exchanges, reply, chooseCoding(request, await codings())));
  }
  const readText = async (...names: string[]) => (await Promise.all(names.map(readFile))).join('');

  for (const [url, name] of Object.entries(pages)) {
    if (name === 'quickstart.html' && quickstartBasePath === undefined) continue;
    serve(url, 'text/html; charset=utf-8', async () =>
      adaptPage(await readText(`reference/${name}`), quickstartBasePath, accountPages),
    );
  }
  for (const [name, { type, parts }] of Object.entries(files)) serve(`/docs/${name}`, type, () => readText(...parts));
  refuseOtherMethods(app);

  const location = `${root}/docs`;
  const redirect = linesOf([
    ...standing,
    'location',
    location,
    'vary',
    'Accept',
    'cache-control',
    'no-store',
    'content-length',
    '0',
  ]);
  // Only browsers are redirected to the reference page: for all others, and for other methods, there is nothing. Therefore a scope of its own.
  app.register(async (scope) => {
    scope.get('/', (request: FastifyRequest, reply: FastifyReply) => {
      if (!prefersPage(request.headers.accept)) return notFound(request, reply);
      respond(reply, 302, redirect, '');
    });
  });
}

export interface DocumentOptions {
  /** The committed document, as YAML. */
  document: string;
  /** The URL at which this server serves the operations of the document. */
  base: string;
  /** Whether the server has the account pages, to which the document then links. */
  accountPages: boolean;
  exchanges: Exchanges;
}

/** The address of the document's own examples. */
const exampleBase = 'https://api.example.com/v1';

/** The committed text with this server's address, which may be only a path, and without links that lead nowhere. */
function adaptDocument(document: string, base: string, accountPages: boolean): string {
  const text = base.startsWith('/') ? document : document.replaceAll(`${exampleBase}/`, `${base}/`);
  return accountPages ? text : text.replace(/\[([^\]]+)\]\(account[^)]*\)/g, '$1');
}

export function documentRoutes(app: App, { document, base, accountPages, exchanges }: DocumentOptions): void {
  let cached: { json: Codings; yaml: Codings } | undefined;

  /** Parses and compresses the document on the first request: doing so at the start would take a third of the start time. */
  function documents(): { json: Codings; yaml: Codings } {
    if (cached) return cached;
    const adapted = adaptDocument(document, base, accountPages);
    const openapi: { servers: { url: string; description: string }[] } = parse(adapted);
    const server = { url: base, description: 'This server' };
    openapi.servers.unshift(server);
    // The committed text, whose quotes and examples a writer of YAML would change. JSON is YAML.
    const text = adapted.replace(/^servers:$/m, (line) => `${line}\n  - ${JSON.stringify(server)}`);
    // RFC 9512, section 2.1.
    const yaml = renderCodings(text, { type: 'application/yaml' });
    cached = { json: renderCodings(JSON.stringify(openapi, null, 2)), yaml };
    return cached;
  }

  app.get('/openapi.json', (request, reply) => sendRendered(exchanges, reply, chooseCoding(request, documents().json)));
  app.get('/openapi.yaml', (request, reply) => sendRendered(exchanges, reply, chooseCoding(request, documents().yaml)));
  refuseOtherMethods(app);
}
