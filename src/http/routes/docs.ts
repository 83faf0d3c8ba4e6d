/** Serves the OpenAPI documents and the interactive reference page. They need no API key. */
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { parse, stringify } from 'yaml';
import { ApiError } from '../../errors.ts';
import type { Exchanges } from '../exchange.ts';
import { refuseOtherMethods } from '../methods.ts';
import type { App } from '../operation.ts';
import { type Rendered, render, respond, sendRendered, standing, standingHeaders } from '../responses.ts';

export interface ReferencePageOptions {
  /** Reads a file of the project. */
  readFile: (name: string) => Promise<Buffer>;
  /** The start of the page's URL: the public base address without /v1. */
  root: string;
  quickstartBasePath: string | undefined;
  exchanges: Exchanges;
}

/**
 * The page loads resources from its own origin only, has no inline scripts, evaluates no strings as scripts and cannot be framed. Inline
 * styles are allowed because the renderer inserts its own.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const security = Object.entries({
  ...standingHeaders,
  'content-security-policy': policy,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
}).flat();

const script = 'text/javascript; charset=utf-8';
const files = { 'page.js': script, 'page.css': 'text/css; charset=utf-8', 'icon.svg': 'image/svg+xml' };

/** Links to the descriptions of the service (RFC 8631). All URLs in the page are relative. */
function documentLinks(quickstartBasePath: string | undefined): string {
  const link = (slug: string, folder: string, server: string) =>
    `<link rel="service-desc" href="${folder}openapi.json" data-slug="${slug}" data-server="${server}">`;
  const quickstart = quickstartBasePath?.slice(1);
  const links = [link('animal-store', '', 'v1')];
  if (quickstart !== undefined) links.push(link('messages-quickstart', `${quickstart}/`, quickstart));
  return links.join('\n    ');
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
  { readFile, root, quickstartBasePath, exchanges }: ReferencePageOptions,
): void {
  function serve(url: string, choose: (request: FastifyRequest) => Promise<Rendered>): void {
    app.get(url, async (request, reply) => {
      const rendered = await choose(request);
      sendRendered(exchanges, reply, rendered);
    });
    refuseOtherMethods(app, url, ['GET', 'HEAD']);
  }

  const page = once(async () => {
    const html = (await readFile('reference/page.html')).toString();
    return render(html.replace('{{documents}}', documentLinks(quickstartBasePath)), {
      security,
      type: 'text/html; charset=utf-8',
    });
  });
  serve('/docs', page);
  for (const [name, type] of Object.entries(files)) {
    serve(
      `/docs/${name}`,
      once(async () => render(await readFile(`reference/${name}`), { security, type })),
    );
  }

  const vary = 'Authorization, Accept-Encoding';
  const compressed = once(async () => {
    return render(await readFile('reference/renderer.js.gz'), { security, type: script, vary, encoding: 'gzip' });
  });
  // Decompressed once and shared: a copy for each client would take 4 MB.
  const plain = once(async () => {
    return render(await promisify(gunzip)(await readFile('reference/renderer.js.gz')), {
      security,
      type: script,
      vary,
    });
  });
  serve('/docs/renderer.js', ({ headers }) =>
    /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(headers['accept-encoding'] ?? '') ? compressed() : plain(),
  );

  // Only browsers are redirected to the reference page.
  app.get('/', (request: FastifyRequest, reply: FastifyReply) => {
    if (!request.headers.accept?.includes('text/html')) throw new ApiError('route_not_found');
    respond(
      reply,
      302,
      [...standing, 'location', `${root}/docs`, 'vary', 'Accept', 'cache-control', 'no-store', 'content-length', '0'],
      '',
    );
  });
}

export interface DocumentOptions {
  /** The committed document, as YAML. */
  document: string;
  /** The URL at which this server serves the operations of the document. */
  base: string;
  exchanges: Exchanges;
}

export function documentRoutes(app: App, { document, base, exchanges }: DocumentOptions): void {
  let cached: { json: Rendered; yaml: Rendered } | undefined;

  /** Parses the document on the first request: doing so at the start would take a third of the start time. */
  function documents(): { json: Rendered; yaml: Rendered } {
    if (cached) return cached;
    const openapi = parse(document) as { servers: { url: string; description: string }[] };
    openapi.servers.unshift({ url: base, description: 'This server' });
    // RFC 9512, section 2.1.
    const yaml = render(stringify(openapi), { type: 'application/yaml' });
    cached = { json: render(JSON.stringify(openapi, null, 2)), yaml };
    return cached;
  }

  app.get('/openapi.json', (_request, reply) => sendRendered(exchanges, reply, documents().json));
  app.get('/openapi.yaml', (_request, reply) => sendRendered(exchanges, reply, documents().yaml));
  refuseOtherMethods(app, '/openapi.json', ['GET', 'HEAD']);
  refuseOtherMethods(app, '/openapi.yaml', ['GET', 'HEAD']);
}
