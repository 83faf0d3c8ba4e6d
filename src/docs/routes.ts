/** Serves the OpenAPI documents and the reference pages. They need no API key. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { parse } from 'yaml';
import type { NotFound } from '../http/errors.ts';
import type { Exchanges } from '../http/exchange.ts';
import { linesOf } from '../http/head.ts';
import { hostOf } from '../http/hosts.ts';
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

const pages = {
  '/docs': 'animal-store.html',
  '/docs/quickstart': 'quickstart.html',
  '/docs/changelog': 'changelog.html',
};
/** They are one module: each can use what those before it declare. */
const pageScripts = ['copy.js', 'quoting.js', 'reference.js', 'samples.js', 'contents.js'];
const pageStyles = ['style.css', 'reference.css', 'contents.css', 'samples.css', 'print.css'];
const javascript = 'text/javascript; charset=utf-8';
const files = {
  'choices.js': { type: javascript, parts: ['choices.js'] },
  'page.js': { type: javascript, parts: pageScripts },
  'panel.js': { type: javascript, parts: ['panel.js'] },
  'search.js': { type: javascript, parts: ['search.js'] },
  'page.css': { type: 'text/css; charset=utf-8', parts: pageStyles },
  'icon.svg': { type: 'image/svg+xml', parts: ['icon.svg'] },
  // Of the account pages.
  'account.css': { type: 'text/css; charset=utf-8', parts: ['style.css', 'account.css'] },
  'account.js': { type: javascript, parts: ['copy.js', 'account.js'] },
};

/** The address of the documents' own examples. */
const exampleRoot = 'https://api.example.com';

/** Scripts and styles without the comments that have lines of their own: a fifth of their compressed size. */
const withoutComments = (text: string) => text.replace(/^ *(?:\/\/.*|\/\*[\s\S]*?\*\/)\n/gm, '');

interface Adapted {
  /** The start of the address of this server. If undefined, the page keeps the address of the examples. */
  root: string | undefined;
  quickstartBasePath: string | undefined;
  accountPages: boolean;
}

/** Fills in what depends on the settings and on the address. scripts/reference.ts made the rest of the page. */
function adaptPage(html: string, { root = exampleRoot, quickstartBasePath = '', accountPages }: Adapted): string {
  const conditions: Record<string, boolean> = {
    account: accountPages,
    'no account': !accountPages,
    quickstart: quickstartBasePath !== '',
  };
  return html
    .replace(/ *<!-- if ([\w ]+) -->\n(.*?) *<!-- end -->\n/gs, (_, name: string, part: string) =>
      conditions[name] ? part : '',
    )
    .replaceAll('{{quickstart}}', quickstartBasePath.slice(1))
    .replaceAll(`${exampleRoot}/v1`, () => `${root}/v1`)
    .replaceAll(`${exampleRoot}/quickstart`, () => root + quickstartBasePath);
}

/** Addresses for which a page is made in a second, at most. Host is whatever the client writes, and each page takes 2 ms. */
const maxAddresses = 10;

/**
 * Calls `make` for a new address, and returns the same result until another one follows. What it made for the empty address is kept, and returned
 * for addresses beyond `maxAddresses`. If `make` fails, the next call tries again.
 */
function keepLast<Made>(make: (address: string) => Promise<Made>): (address: string) => Promise<Made> {
  const kept = new Map<string, Promise<Made>>();
  let last = '';
  let second = 0;
  let count = 0;

  function isTooMany(): boolean {
    const now = Math.floor(performance.now() / 1000);
    if (now !== second) count = 0;
    second = now;
    count += 1;
    return count > maxAddresses;
  }

  return (given) => {
    const address = given === '' || kept.has(given) || !isTooMany() ? given : '';
    const known = kept.get(address);
    if (known) return known;
    if (address !== '') {
      if (last !== '') kept.delete(last);
      last = address;
    }
    const made = make(address);
    kept.set(address, made);
    made.catch(() => kept.delete(address));
    return made;
  };
}

/** The start of the address that a browser used; empty if it has characters that would need escapes in the samples. */
function addressUsed(request: FastifyRequest): string {
  const host = hostOf(request.raw) ?? '';
  return /^[\w.-]+(?::\d+)?$/.test(host) ? `${request.protocol}://${host}` : '';
}

export function referencePageRoutes(
  app: App,
  { readFile, root, quickstartBasePath, accountPages, exchanges, notFound }: ReferencePageOptions,
): void {
  /** `read` is given the start of the server's address if the file depends on it, and otherwise an empty text. */
  function serve(
    url: string,
    type: string,
    read: (address: string) => Promise<string>,
    addressOf = (_: FastifyRequest) => '',
  ): void {
    const codings = keepLast(async (address) => renderCodings(await read(address), { security, type }));
    app.get(url, async (request, reply) =>
      sendRendered(exchanges, reply, chooseCoding(request, await codings(addressOf(request)))),
    );
  }
  const readText = async (...names: string[]) => (await Promise.all(names.map(readFile))).join('');
  const addressOf = (request: FastifyRequest) => (root.startsWith('http') ? root : addressUsed(request));

  for (const [url, name] of Object.entries(pages)) {
    if (name === 'quickstart.html' && quickstartBasePath === undefined) continue;
    const read = async (address: string) =>
      adaptPage(await readText(`reference/${name}`), { root: address || undefined, quickstartBasePath, accountPages });
    serve(url, 'text/html; charset=utf-8', read, addressOf);
  }
  for (const [name, { type, parts }] of Object.entries(files))
    serve(`/docs/${name}`, type, async () => withoutComments(await readText(...parts)));
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

/** The committed text with this server's address, which may be only a path, and without links that lead nowhere. */
function adaptDocument(document: string, base: string, accountPages: boolean): string {
  const text = base.startsWith('/') ? document : document.replaceAll(`${exampleRoot}/v1/`, `${base}/`);
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
