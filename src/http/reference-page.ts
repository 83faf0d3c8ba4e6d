/** The reference page: static files, read once, that show the OpenAPI documents and let their operations be tried. */
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Failure } from '../errors.ts';
import type { App } from './app-type.ts';
import type { Exchanges } from './exchange.ts';
import { refuseOtherMethods } from './methods.ts';
import { type Rendered, render, respond, sendRendered, standing, standingHeaders } from './responses.ts';

export interface ReferencePageOptions {
  /** Reads a file of the folder reference/. */
  readFile: (name: string) => Promise<Buffer>;
  /** What the address of the page starts with: the public base address without /v1. */
  root: string;
  quickstartBasePath: string | undefined;
  exchanges: Exchanges;
}

/** Where the page tells of an operation: its group and its name. */
export const placeOf = (group: string, operationId: string) => `/docs#animal-store/tag/${group}/${operationId}`;

/**
 * Only this origin is asked for anything, no script stands in the page or is made from text, and nobody frames it. Styles may stand
 * in it, because the renderer puts its own there.
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

/** RFC 8631: where the descriptions of the service are. All addresses of the page are relative to its own. */
function documentLinks(quickstartBasePath: string | undefined): string {
  const link = (slug: string, folder: string, server: string) =>
    `<link rel="service-desc" href="${folder}openapi.json" data-slug="${slug}" data-server="${server}">`;
  const quickstart = quickstartBasePath?.slice(1);
  const links = [link('animal-store', '', 'v1')];
  if (quickstart !== undefined) links.push(link('messages-quickstart', `${quickstart}/`, quickstart));
  return links.join('\n    ');
}

/** Makes what it returns on the first call, and again where that failed. */
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
    const html = (await readFile('page.html')).toString();
    return render(html.replace('{{documents}}', documentLinks(quickstartBasePath)), {
      security,
      type: 'text/html; charset=utf-8',
    });
  });
  serve('/docs', page);
  for (const [name, type] of Object.entries(files)) {
    serve(
      `/docs/${name}`,
      once(async () => render(await readFile(name), { security, type })),
    );
  }

  const vary = 'Authorization, Accept-Encoding';
  const compressed = once(async () => {
    return render(await readFile('renderer.js.gz'), { security, type: script, vary, encoding: 'gzip' });
  });
  // Kept from the first time on: each client's own would be 4 MB.
  const plain = once(async () => {
    return render(await promisify(gunzip)(await readFile('renderer.js.gz')), { security, type: script, vary });
  });
  serve('/docs/renderer.js', ({ headers }) =>
    /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(headers['accept-encoding'] ?? '') ? compressed() : plain(),
  );

  // To anything but a browser there is nothing here.
  app.get('/', (request: FastifyRequest, reply: FastifyReply) => {
    if (!request.headers.accept?.includes('text/html')) throw new Failure('route_not_found');
    respond(
      reply,
      302,
      [...standing, 'location', `${root}/docs`, 'vary', 'Accept', 'cache-control', 'no-store', 'content-length', '0'],
      '',
    );
  });
}
