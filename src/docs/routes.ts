/** Serves the OpenAPI documents, the reference pages and their files. They need no API key. */
import { gzipSync } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { AppConfig } from '../http/decorations.ts';
import { pageHeaders } from '../http/headers.ts';
import { isLoopback } from '../http/hosts.ts';
import { addRoutes } from '../http/methods.ts';
import type { App } from '../http/operation.ts';
import { type Kind, type Representation, represent, sendRepresentation } from '../http/responses.ts';

/** `forms`: where forms lead that the browser sends. */
const headersOf = (forms: string) => ({
  ...pageHeaders(`connect-src 'self'; form-action '${forms}'`),
  'referrer-policy': 'no-referrer',
});
const headers = headersOf('none');

const pages = {
  '/docs': 'animal-store.html',
  '/docs/quickstart': 'quickstart.html',
  '/docs/changelog': 'changelog.html',
};
/** The parts of each file, by their content type and its name. Parts of a script are one module: each can use what those before it declare. */
const files = {
  'text/javascript; charset=utf-8': {
    'choices.js': ['choices.js'],
    'page.js': ['theme.js', 'copy.js', 'quoting.js', 'reference.js', 'samples.js', 'search.js', 'contents.js'],
    'panel.js': ['panel.js'],
    // Of the account pages.
    'account.js': ['theme.js', 'copy.js', 'account.js'],
  },
  'text/css; charset=utf-8': {
    'page.css': ['style.css', 'reference.css', 'contents.css', 'samples.css', 'print.css'],
    'account.css': ['style.css', 'account.css', 'print.css'],
  },
  'image/svg+xml': { 'icon.svg': ['icon.svg'] },
};

/** The address of the documents' own examples. */
const exampleRoot = 'https://api.example.com';

/** RFC 9512, section 2.1. */
const yaml = { type: 'application/yaml' };

/** The start of the URLs of pages: the public base address without /v1. */
const rootOf = (base: string) => base.slice(0, -'/v1'.length);

/** Whether Accept-Encoding names gzip, with any weight but 0 (RFC 9110, section 12.5.3). */
function acceptsGzip({ headers }: FastifyRequest): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(headers['accept-encoding'] ?? '');
}

/**
 * Serves what `read` returns, a public text, in two content codings: see docs/decisions/compression.md. Each has its own ETag, because its bytes
 * differ. Nothing is read before the first request: parsing and compressing the documents would take a third of the start time.
 */
function serve(app: App, url: string, kind: Kind, read: () => Promise<string>): void {
  const both = { ...kind, isPublic: true, vary: 'Accept-Encoding' };
  let made: Promise<{ plain: Representation; gzip: Representation }> | undefined;
  async function make() {
    try {
      const content = await read();
      // About 5 ms for 100 kB, once.
      return {
        plain: represent(content, both),
        gzip: represent(gzipSync(content, { level: 9 }), { ...both, encoding: 'gzip' }),
      };
    } catch (error) {
      // The next request tries again.
      made = undefined;
      throw error;
    }
  }
  app.get(url, async (request, reply) => {
    made ??= make();
    const { plain, gzip } = await made;
    return sendRepresentation(reply, acceptsGzip(request) ? gzip : plain);
  });
}

export interface DocsOptions {
  /** Reads a file of the project. */
  readFile: (name: string) => Promise<Buffer>;
}

/** Reads the texts of files, one after the other. A tool may have written CRLF. */
const textReader =
  (readFile: DocsOptions['readFile']) =>
  async (...names: string[]) =>
    (await Promise.all(names.map(readFile))).join('').replaceAll('\r\n', '\n');

/** Returns a function that returns the page for an address that a person has mistyped, and its headers. */
export function createNotFoundPage({ config }: FastifyInstance, { readFile }: DocsOptions) {
  let html: string | undefined;
  // Only the path: under another name of the server, the page's policy allows no style of BASE_URL.
  const root = rootOf(config.base.replace(/^https?:\/\/[^/]+/, ''));
  return async () => {
    html ??= adaptPage(await textReader(readFile)('src/pages/reference/not-found.html'), root, config);
    // It searches the reference.
    return { headers: { ...headersOf('self'), 'cache-control': 'no-store' }, html };
  };
}

/** The OpenAPI documents, and the reference pages with their files. */
export const docs = (app: App, options: DocsOptions): Promise<void> =>
  addRoutes(app, async () => addDocs(app, options));

function addDocs(app: App, { readFile }: DocsOptions): void {
  const { config } = app;
  const { base, quickstartBasePath, signUp } = config;
  /** The start of absolute URLs: programs that import a document need one. Never from the Host header, which a client chooses. */
  const origin = () => (base.startsWith('/') ? listeningOrigin(app) : '');
  const root = rootOf(base);
  const readText = textReader(readFile);

  const start = () => origin() + root;
  /** A committed document, with this server's address in place of the examples, and without links that lead nowhere. */
  const readDocument = async (name: string) => {
    const text = (await readText(name)).replaceAll(exampleRoot, start() || exampleRoot);
    return signUp === 'none' ? text.replace(/\[([^\]]+)\]\(account[^)]*\)/g, '$1') : text;
  };
  /** Serves a document, and returns what reads it. `operations`: their base path. */
  const serveDocument = (name: string, prefix: string, operations: string) => {
    /** The text, whose quotes a writer of YAML would change, with this server in place of the examples, or before them if its address is only a path. */
    const read = async () => {
      // JSON is YAML.
      const thisServer = JSON.stringify({ url: start() + operations, description: 'This server' });
      const examples = start() === '' ? /^servers:\n/m : /^servers:\n(?: .*\n)+/m;
      return (await readDocument(name)).replace(examples, `servers:\n  - ${thisServer}\n`);
    };
    serve(app, `${prefix}/openapi.json`, {}, async () => JSON.stringify(await parseYaml(await read()), null, 2));
    serve(app, `${prefix}/openapi.yaml`, yaml, read);
    return read;
  };
  const document = serveDocument('openapi.yaml', '', '/v1');
  serve(app, '/openapi-3.0.json', {}, async () => {
    const { servers } = (await parseYaml(await document())) as { servers: object[] };
    return JSON.stringify({ ...JSON.parse(await readDocument('openapi-3.0.json')), servers }, null, 2);
  });
  serve(app, '/openapi-postman.json', {}, () => readDocument('openapi-postman.json'));
  serve(app, '/openapi-bruno.yml', yaml, () => readDocument('openapi-bruno.yml'));
  serve(app, '/llms.txt', { type: 'text/markdown; charset=utf-8' }, async () => {
    const { info } = (await parseYaml(await document())) as { info: Record<'title' | 'description', string> };
    const links = Object.entries({
      'The OpenAPI document': '/openapi.yaml',
      'The reference, with guides and samples': '/docs',
      'The changelog': '/docs/changelog',
    }).map(([title, path]) => `- [${title}](${start()}${path})\n`);
    return `# ${info.title}\n\n${info.description}\n\n## Links\n\n${links.join('')}`;
  });
  // Pages of a person, and an API that needs a key.
  serve(app, '/robots.txt', { type: 'text/plain' }, async () => 'User-agent: *\nDisallow: /account\nDisallow: /v1/\n');
  // Tools ask for it unseen; browsers find it in the pages.
  serve(app, '/favicon.ico', { headers, type: 'image/svg+xml' }, () => readText('src/pages/icon.svg'));
  if (quickstartBasePath !== undefined)
    serveDocument('openapi.quickstart.yaml', quickstartBasePath, quickstartBasePath);
  for (const [url, name] of Object.entries(pages)) {
    if (name === 'quickstart.html' && quickstartBasePath === undefined) continue;
    const read = async () => adaptPage(await readText(`src/pages/reference/${name}`), start(), config);
    serve(app, url, { headers, type: 'text/html; charset=utf-8' }, read);
  }
  for (const [type, partsOf] of Object.entries(files)) {
    for (const [name, parts] of Object.entries(partsOf)) {
      const read = async () => withoutComments(await readText(...parts.map((part) => `src/pages/${part}`)));
      serve(app, `/docs/${name}`, { headers, type }, read);
    }
  }

  const redirect = (status: number, page: string) => (_request: FastifyRequest, reply: FastifyReply) =>
    reply.header('cache-control', 'no-store').redirect(root + page, status);
  const toDocs = redirect(302, '/docs');
  app.get('/docs/', redirect(308, '/docs'));
  if (signUp !== 'none') app.get('/account/', redirect(308, '/account'));
  // Browsers name text/html. Load balancers ask here whether there is a service, and people with curl what it is.
  const addresses = () => ({ api: `${start()}/v1`, reference: `${start()}/docs`, openapi: `${start()}/openapi.json` });
  app.get('/', (request, reply) =>
    request.headers.accept?.includes('text/html')
      ? toDocs(request, reply)
      : reply.header('cache-control', 'no-store').send(addresses()),
  );
}

/** Scripts and styles without the comments that have lines of their own: a fifth of their compressed size. */
const withoutComments = (text: string) => text.replace(/^ *(?:\/\/.*|\/\*[\s\S]*?\*\/)\n/gm, '');

/**
 * Fills in what depends on the settings. scripts/reference.ts made the rest of the page. Without BASE_URL the samples name the address of the examples,
 * until samples.js replaces it.
 */
function adaptPage(html: string, root: string, { quickstartBasePath = '', signUp }: AppConfig): string {
  const address = root.startsWith('http') ? root : exampleRoot;
  const conditions: Record<string, boolean> = {
    [signUp]: true,
    account: signUp !== 'none',
    quickstart: quickstartBasePath !== '',
  };
  return html
    .replace(/ *<!-- if (\w+) -->\n(.*?) *<!-- end -->\n/gs, (_, name: string, part: string) =>
      conditions[name] ? part : '',
    )
    .replaceAll('{{root}}', () => root)
    .replaceAll('{{quickstart}}', quickstartBasePath.slice(1))
    .replaceAll(`${exampleRoot}/v1`, () => `${address}/v1`)
    .replaceAll(`${exampleRoot}/quickstart`, () => address + quickstartBasePath);
}

/** Where a developer's server listens, such as http://127.0.0.1:3000; empty if others may reach it elsewhere. */
function listeningOrigin({ config, server }: App): string {
  const found = server.address();
  if (config.live || config.trustProxy || typeof found !== 'object' || !found || !isLoopback(found.address)) return '';
  return `http://${found.family === 'IPv6' ? `[${found.address}]` : found.address}:${found.port}`;
}

async function parseYaml(text: string): Promise<unknown> {
  // Loading it takes a tenth of the start time.
  const { parse } = await import('yaml');
  return parse(text);
}
