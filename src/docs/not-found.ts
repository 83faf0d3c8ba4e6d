/** Responds to unknown paths: people who mistype an address get a redirect or a page with links, and programs the JSON error. */
import type { NotFound } from '../http/errors.ts';
import { linesOf } from '../http/head.ts';
import { respond } from '../http/responses.ts';
import { pageHeaders } from './page-headers.ts';

/** The weight that an Accept header gives a media type: that of the most specific range that matches (RFC 9110, section 12.5.1). */
function weightOf(type: string, accept: string): number {
  const ranges = accept.split(',').map((part) => part.toLowerCase().split(';'));
  for (const wanted of [type, `${type.slice(0, type.indexOf('/'))}/*`, '*/*']) {
    const found = ranges.find(([range = '']) => range.trim() === wanted);
    if (!found) continue;
    const weight = found.map((part) => part.trim()).find((part) => part.startsWith('q='));
    return weight === undefined ? 1 : Number(weight.slice('q='.length));
  }
  return 0;
}

/** Whether a client prefers pages to JSON. Browsers do; a program that accepts anything does not. */
export const prefersPage = (accept = '') => weightOf('text/html', accept) > weightOf('application/json', accept);

/** The path of a request's target, which clients of proxies send after the scheme and the host (RFC 9112, section 3.2.2). */
const pathOf = (target = '') => target.replace(/^https?:\/\/[^/?]*/i, '').replace(/\?.*/s, '');

const renderNotFound = (root: string, links: [path: string, name: string][]) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>Not found · Animal Store</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <link rel="icon" href="${root}/docs/icon.svg" type="image/svg+xml">
    <script src="${root}/docs/choices.js"></script>
    <link rel="stylesheet" href="${root}/docs/page.css">
  </head>
  <body class="short">
    <main>
      <h1>Not found</h1>
      <p>There is no page at this address. These pages exist:</p>
      <ul>
${links.map(([path, name]) => `        <li><a href="${root}${path}">${name}</a></li>`).join('\n')}
      </ul>
    </main>
  </body>
</html>
`;

export interface PageNotFoundOptions {
  /** The start of the URLs in responses: the public base address, or its path. Ends in /v1. */
  base: string;
  quickstartBasePath: string | undefined;
  accountPages: boolean;
  /** Responds to programs, below the paths of the API and elsewhere. */
  api: NotFound;
  elsewhere: NotFound;
}

/** Responds to people, except below /v1 and the quickstart, where all clients are programs. */
export function createPageNotFound(options: PageNotFoundOptions): NotFound {
  const { base, quickstartBasePath, accountPages, api, elsewhere } = options;
  const root = base.slice(0, -'/v1'.length);
  const links: [path: string, name: string][] = [['/docs', 'Reference']];
  if (quickstartBasePath !== undefined) links.push(['/docs/quickstart', 'Quickstart']);
  if (accountPages) links.push(['/account', 'API keys']);
  const page = renderNotFound(URL.parse(root)?.pathname.replace(/\/$/, '') ?? root, links);
  const shared = { ...pageHeaders, vary: 'Accept', 'cache-control': 'no-store' };
  const toLines = (own: Record<string, string>) => linesOf(Object.entries({ ...shared, ...own }).flat());
  const missing = toLines({
    'content-type': 'text/html; charset=utf-8',
    'content-length': `${Buffer.byteLength(page)}`,
  });
  const redirects = new Map(
    links.map(([path]) => [`${path}/`, toLines({ location: root + path, 'content-length': '0' })]),
  );
  const body = Buffer.from(page);

  return (request, reply) => {
    const path = pathOf(request.raw.url);
    // `*` is the target of OPTIONS for the whole server.
    const isApi = ['/v1', quickstartBasePath].some((prefix) => `${path}/`.startsWith(`${prefix}/`));
    if (isApi || path === '*') return api(request, reply);
    if (!prefersPage(request.headers.accept)) return elsewhere(request, reply);
    const redirect = redirects.get(path);
    if (redirect) respond(reply, 308, redirect, '');
    else respond(reply, 404, missing, body);
  };
}
