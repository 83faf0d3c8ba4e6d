/** Every combination of route, method, framing, type, credential, version and expectation, each with the status that it must get. */
import { exampleOf, type Operation, readAllOperations } from './valid-requests.ts';

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'];
const types = { none: '', json: 'application/json', form: 'application/x-www-form-urlencoded', text: 'text/plain' };
type Type = keyof typeof types;

const operations = readAllOperations();
/** The route of an operation, as the server registers it. */
const routeOf = ({ path }: Operation) => path.replace(/\{(\w+)\}/g, ':$1');
const bodies = Object.fromEntries(
  operations.flatMap((each) => (each.body ? [[routeOf(each), JSON.stringify(each.bodyExample)]] : [])),
);
const documented = Object.fromEntries(
  operations.flatMap(({ parameters }) =>
    parameters.filter((each) => each.in === 'path').map((each) => [`:${each.name}`, String(exampleOf(each))]),
  ),
);
const chunked = 'Transfer-Encoding: chunked\r\n\r\n';
const chunksOf = (body: string) => `1\r\n${body[0]}\r\n${(body.length - 1).toString(16)}\r\n${body.slice(1)}\r\n0\r\n`;
/** The end of the headers, and the body. */
const framings: Record<string, (body: string) => string> = {
  'no length': () => '\r\n',
  'length 0': () => 'Content-Length: 0\r\n\r\n',
  'no chunks': () => `${chunked}0\r\n\r\n`,
  'length n': (body) => `Content-Length: ${body.length}\r\n\r\n${body}`,
  chunks: (body) => `${chunked}${chunksOf(body)}\r\n`,
  trailers: (body) => `${chunked}${chunksOf(body)}X-Trailer: a\r\n\r\n`,
};

interface Sent {
  method: string;
  framing: string;
  type: Type;
  /** Whether the request has an API key and the cookie of a session. */
  known: boolean;
}

const hasBody = ({ framing }: Sent) => ['length n', 'chunks', 'trailers'].includes(framing);

/** What a path responds to GET, with and without a key or session, and to POST. Undefined: 405. */
interface Route {
  needsKey?: true;
  get?: [known: number, unknown: number];
  post?: (sent: Sent) => number;
  /** What any other method gets. By default 405, and 204 for OPTIONS. */
  otherwise?: number;
}

const file: Route = { get: [200, 200] };
/** A page with a slash at its end: other methods than GET and HEAD get 404. */
const redirect: Route = { get: [308, 308], otherwise: 404 };
/** `filled`: the status of a form with the field name alone. */
const form = (get: [known: number, unknown: number], filled: number, empty: number) => ({
  get,
  post: (sent: Sent) => (sent.type === 'form' ? (hasBody(sent) ? filled : empty) : 415),
});
/** A form that leads to the sign-in page without a session, before its body is read. */
const ownForm = (filled: number, empty: number): Route => ({
  get: [303, 303],
  post: (sent) => (sent.known ? form([303, 303], filled, empty).post(sent) : 303),
});

/** A body without a type is not JSON. Only chunks may turn out to be none. */
const jsonStatus = (success: number, unsupported: number) => (sent: Sent) => {
  if (sent.type === 'none' && ['no length', 'length 0'].includes(sent.framing)) return 400;
  if (sent.type !== 'json') return unsupported;
  return hasBody(sent) ? success : 400;
};

/** The operations, in the order of the documents: requests for an animal find those that the requests before have added. */
function operationRoutes(): Record<string, Route> {
  const found: Record<string, Route> = {};
  for (const operation of operations) {
    const { method, statuses } = operation;
    const name = routeOf(operation);
    const route = found[name] ?? { needsKey: true };
    found[name] = route;
    const success = statuses.find((status) => status < 300) ?? 501;
    if (method === 'GET') route.get = [success, 401];
    if (method === 'POST') route.post = jsonStatus(success, statuses.includes(415) ? 415 : 400);
  }
  return found;
}

/**
 * Route → its responses: of operations from the documents, of others from their decisions. A path that is missing here is unknown: 404 to every
 * method.
 */
export const routes: Record<string, Route> = {
  ...operationRoutes(),
  '/quickstart/openapi.json': file,
  '/quickstart/openapi.yaml': file,
  '/openapi.json': file,
  '/openapi.yaml': file,
  '/docs': file,
  '/docs/': redirect,
  '/account/': redirect,
  '/docs/quickstart': file,
  '/docs/changelog': file,
  '/docs/icon.svg': file,
  '/docs/page.css': file,
  '/docs/page.js': file,
  '/docs/choices.js': file,
  '/docs/panel.js': file,
  '/docs/search.js': file,
  '/docs/account.css': file,
  '/docs/account.js': file,
  '/account': { get: [200, 303] },
  '/account/settings': { get: [200, 303] },
  '/account/sign-in': form([303, 200], 400, 400),
  '/account/sign-up': form([303, 200], 400, 400),
  '/account/sign-out': form([303, 303], 303, 303),
  '/account/links/:token': form([200, 200], 400, 400),
  '/account/keys': ownForm(400, 400),
  // The key 1 is another account's.
  '/account/keys/:id': { get: [404, 303] },
  '/account/keys/:id/rotate': ownForm(400, 400),
  '/account/keys/:id/revoke': ownForm(400, 404),
  '/account/password': ownForm(400, 400),
  '/account/delete': ownForm(400, 400),
  '/account/sign-out-everywhere': ownForm(303, 303),
};

/** The server has routes for these. They respond as if there were none; the first leads browsers to a page. */
export const hiddenRoutes = ['/', '/account/*', '/account/keys/', '/account/links/', '/v1/pets/'];
const unknownPaths = [...hiddenRoutes, '/cats', '/v1/cats', '/quickstart/cats', '/docs/cats'];

function expected(route: Route | undefined, version: string, sent: Sent): number {
  // RFC 9112, section 6.1.
  if (version === '1.0' && framings[sent.framing]?.('xx').startsWith(chunked)) return 400;
  if (!route) return 404;
  if (route.needsKey && !sent.known) return 401;
  if (sent.method === 'GET' || sent.method === 'HEAD') return route.get?.[sent.known ? 0 : 1] ?? 405;
  if (route.otherwise !== undefined) return route.otherwise;
  if (sent.method === 'OPTIONS') return 204;
  return (sent.method === 'POST' ? route.post?.(sent) : undefined) ?? 405;
}

export interface Case {
  name: string;
  /** The whole request. */
  bytes: string;
  method: string;
  status: number;
}

interface Heading {
  route: string;
  method: string;
  type: Type;
  known: boolean;
  version: string;
  expectation: string;
}

const expecting = 'Expect: 100-continue\r\n';
const ways = ['1.1', '1.0'].flatMap((version) => ['', expecting].map((expectation) => ({ version, expectation })));

/** Each route, method, type and credential in one of the `ways`; the same in another way for the next route. */
function* headings(): Generator<Heading> {
  let turn = 0;
  for (const route of [...Object.keys(routes), ...unknownPaths]) {
    turn += 1;
    for (const method of methods)
      for (const type of Object.keys(types) as Type[])
        for (const known of [true, false])
          yield { route, method, type, known, ...(ways[turn++ % ways.length] as (typeof ways)[number]) };
  }
}

/**
 * Yields all cases, in lists of those that differ only in their framing. `credentials` resolves to the headers of an API key and of a session;
 * `parameters`: the values of path parameters of other routes than operations.
 */
export async function* cases(
  credentials: (route: string) => Promise<string>,
  parameters: Record<string, string>,
): AsyncGenerator<Case[]> {
  for (const { route, method, type, known, version, expectation } of headings()) {
    const line = `${method} ${route.replace(/:\w+/, (name) => parameters[name] ?? (documented[name] as string))} HTTP/${version}`;
    const headers = `Host: localhost\r\nSec-Fetch-Site: same-origin\r\n${types[type] && `Content-Type: ${types[type]}\r\n`}`;
    const kept = version === '1.0' ? 'Connection: keep-alive\r\n' : '';
    const head = `${line}\r\n${headers}${known ? await credentials(route) : ''}${expectation}${kept}`;
    yield Object.entries(framings).map(([framing, end]) => ({
      name: `${line}, ${framing}, type ${type}, ${known ? 'known' : 'unknown'}${expectation && ', Expect'}`,
      bytes: head + end(bodies[route] ?? 'name=x'),
      method,
      status: expected(routes[route], version, { method, framing, type, known }),
    }));
  }
}
