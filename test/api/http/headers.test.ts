/** Tests the exact set of headers of each kind of response, and what CORS_ORIGINS adds to it. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { newSecret } from '../../../src/core/accounts.ts';
import { ApiError } from '../../../src/core/errors.ts';
import { limits } from '../../../src/core/limits.ts';
import { rateLimited } from '../../../src/http/errors.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { readDocument } from '../../support/described.ts';
import { converse, type RawAnswer } from '../../support/raw.ts';
import { ask, get, host, json, open, pet, post } from './requests.ts';

/** Headers of HTTP itself and of the connection. They are not compared. */
const transport = ['date', 'connection', 'keep-alive', 'content-length', 'transfer-encoding'];

const always = {
  'x-request-id': expect.stringMatching(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/),
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};
const inJson = { 'content-type': 'application/json' };
const revalidated = {
  'cache-control': 'private, no-cache',
  vary: 'Authorization',
  etag: expect.stringMatching(/^"[\w-]{27}"$/),
};
const inCodings = { ...revalidated, 'cache-control': 'public, no-cache', vary: 'Accept-Encoding' };
const jsonInCodings = { ...inCodings, ...inJson };
const notStored = { 'cache-control': 'no-store' };
const error = { ...inJson, ...notStored };
const link =
  '</v1/pets>; rel="successor-version", </docs#animal-store/tag/pets/getPet>; rel="deprecation"; type="text/html"';
const deprecated = { link, deprecation: '@1795132800', sunset: 'Thu, 05 Dec 2030 00:00:00 GMT' };
const deprecatedError = { ...error, ...deprecated };
const first = (query: string) => ({ ...revalidated, link: `</v1/pets?${query}>; rel="first"` });
const realm = 'Bearer realm="animal-store"';
const challenge = (params = '') => ({ 'www-authenticate': realm + params });
const page = {
  ...inCodings,
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': expect.stringMatching(/^default-src 'none'; script-src 'self'; /),
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
};
const { etag: _, vary: __, ...notFoundPage } = { ...page, ...notStored };
const allowed = { allow: 'GET, HEAD, POST, OPTIONS' };
const allowedOfRoot = { allow: 'GET, HEAD, OPTIONS' };

type Row = [status: number, headers: object, request: string];

/** KEY stands for a key with both scopes, READER for one with the scope pets:read, ETAG for the ETag of the list. */
const table: Row[] = [
  [200, { ...inJson, ...first('limit=20') }, get('/v1/pets')],
  [304, first('limit=20'), get('/v1/pets', `${open}If-None-Match: ETAG\r\n`)],
  [200, { ...inJson, ...revalidated, ...deprecated }, get('/v1/pets/1')],
  [201, { ...error, location: expect.stringMatching(/^\/v1\/pets\/\d+$/) }, post()],
  [201, { ...error, location: '/v1/pets/1', 'idempotent-replayed': 'true' }, post(pet, 'Idempotency-Key: first\r\n')],
  [202, error, post('{"message":"Hello"}').replace('/v1/pets', '/quickstart/messages')],
  [204, allowed, ask('OPTIONS /v1/pets')],
  // HAProxy's check, unless it is told otherwise.
  [204, allowedOfRoot, ask('OPTIONS /', '', '1.0')],
  ...['/', '/?a', 'http://animals.example'].map((target): Row => [204, allowedOfRoot, ask(`OPTIONS ${target}`, host)]),
  [200, { ...inCodings, 'content-type': 'application/yaml' }, get('/openapi.yaml', host)],
  [200, jsonInCodings, get('/openapi.json', host)],
  [200, { ...jsonInCodings, 'content-encoding': 'gzip' }, get('/openapi.json', `${host}Accept-Encoding: gzip\r\n`)],
  [200, page, get('/docs', host)],
  [302, { ...notStored, location: '/docs' }, get('/', `${host}Accept: text/html\r\n`)],
  [400, error, get('/v1/pets?limit=0')],
  [400, error, get('/v1/pets/%zz')],
  // While its key is looked up.
  [
    400,
    deprecatedError,
    `${get('/v1/pets/1', `${open}Transfer-Encoding: chunked\r\n`).replace('KEY', newSecret(false).key)}zz\r\n`,
  ],
  [400, error, post('').replace('application/json', 'text/plain')],
  [400, error, 'hello\r\n\r\n'],
  [400, error, get('/v1/pets', '')],
  [401, { ...error, ...challenge() }, get('/v1/pets', host)],
  [401, { ...error, ...challenge(', error="invalid_token"') }, get('/v1/pets').replace('KEY', 'none')],
  [
    403,
    { ...error, ...challenge(', error="insufficient_scope", scope="pets:write"') },
    post().replace('KEY', 'READER'),
  ],
  [404, deprecatedError, get('/v1/pets/999')],
  [404, error, get('/v1/x', `${host}Accept: text/html\r\n`)],
  [404, notFoundPage, get('/v2', `${host}Accept: text/html\r\n`)],
  [404, error, get('/v1/pets/')],
  [405, { ...error, ...allowed }, ask('PUT /v1/pets')],
  ...['PUT', 'POST', 'TRACE'].map((method): Row => [405, { ...error, ...allowedOfRoot }, ask(`${method} /`, host)]),
  [405, { ...deprecatedError, allow: 'GET, HEAD, OPTIONS' }, ask('PUT /v1/pets/1')],
  [412, error, post(pet, 'If-None-Match: *\r\n')],
  [413, error, post(pet.padEnd(70_000))],
  [414, error, get(`/v1/pets?cursor=${'a'.repeat(9000)}`)],
  [415, error, post().replace('application/json', 'text/plain')],
  [415, { ...error, 'accept-encoding': 'identity' }, post(pet, 'Content-Encoding: gzip\r\n')],
  [417, error, get('/v1/pets', `${open}Expect: a-pony\r\n`)],
  [422, error, post(pet.replace('7', '8'), 'Idempotency-Key: first\r\n')],
  [431, error, get('/v1/pets', `${open}X: ${'x'.repeat(20_000)}\r\n`)],
  [501, error, get('/v1/store/orders')],
];

function namesAndValues({ headers }: RawAnswer): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !transport.includes(name)));
}

/** Sends each row on its own connection, with each name in `words` replaced by its value, and checks the headers. */
async function checkRows({ port, key }: TestApp, rows: Row[], words: Record<string, string> = {}): Promise<void> {
  for (const [status, headers, request] of rows) {
    const sent = Object.entries({ KEY: key, ...words }).reduce((text, [word, to]) => text.replace(word, to), request);
    const [answer, ...others] = await converse(port, [sent]);
    const found = [answer?.status, answer && namesAndValues(answer), others];
    expect.soft(found, request.slice(0, 300)).toEqual([status, { ...always, ...headers }, []]);
  }
}

test('each response carries the headers of its kind and no others', async () => {
  const app = await startApp();
  await app.add({ name: 'Biscuit', categoryId: 7 }, { 'idempotency-key': 'first' });
  const { key: READER } = await app.newKey({ scopes: ['pets:read'] });
  const { etag } = (await app.call('GET', '/v1/pets')).headers;
  await checkRows(app, table, { READER, ETAG: `${etag}` });
});

test('410, 500 and 503 carry their headers and no others', async () => {
  const app = await startApp();
  app.setTime(new Date('2030-12-05T00:00:00Z'));
  await checkRows(app, [[410, deprecatedError, get('/v1/pets/1')]]);
  app.store.pets.list = () => Promise.reject(new Error('a bug'));
  await checkRows(app, [[500, error, get('/v1/pets')]]);
  app.store.pets.list = () => Promise.reject(new ApiError('service_unavailable'));
  await checkRows(app, [[503, { ...error, 'retry-after': '1' }, get('/v1/pets')]]);
  // The key cannot be looked up: that is no 401.
  app.store.accounts.findKey = app.store.pets.list as never;
  const { key } = await app.newKey();
  await checkRows(app, [[503, { ...error, 'retry-after': '1' }, get('/v1/pets')]], { KEY: key });
});

test('Retry-After of a 429 is at least a second, also if the wait has ended since', () => {
  const waits = [-5, 0, 1, 1001].map((waitMs) => rateLimited(waitMs).headers['retry-after']);
  expect(waits).toEqual(['1', '1', '1', '2']);
});

test('the responses of the rate limits carry their headers and no others', async () => {
  const app = await startApp({ requestsPerMinute: 1, limits: { rejectedKeys: 1 } });
  const seconds = expect.stringMatching(/^\d+$/);
  const rates = { 'ratelimit-limit': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': seconds };
  const tooMany = { ...error, 'retry-after': seconds };
  const bad = get('/v1/pets').replace('KEY', 'none');
  await checkRows(app, [
    [200, { ...inJson, ...first('limit=20'), ...rates }, get('/v1/pets')],
    [429, { ...tooMany, ...rates }, get('/v1/pets')],
    [401, { ...error, ...challenge(', error="invalid_token"') }, bad],
    [429, tooMany, bad],
  ]);
});

test('each response has its date, and says whether the connection stays open', async () => {
  const { port, key } = await startApp();
  const close = `${open}Connection: close\r\n`;
  for (const [request, status, connection] of [
    [get('/v1/pets'), 200, 'keep-alive'],
    [get('/v1/pets', `${open}If-None-Match: *\r\n`), 304, 'keep-alive'],
    [get('/v1/pets', close), 200, 'close'],
    [get('/v1/pets').replace('1.1', '1.0'), 200, 'close'],
    [get('/v1/pets', `${open}Connection: keep-alive\r\n`).replace('1.1', '1.0'), 200, 'keep-alive'],
    [get('/v1/pets').replace('GET', 'BREW'), 400, 'close'],
    [`${ask('POST /v1/pets', `${open}${json}Transfer-Encoding: chunked\r\n`)}zz\r\n`, 400, 'close'],
    // A late body could be parsed as the next request.
    [ask('POST /v1/pets', `${host}Expect: 100-continue\r\nContent-Length: 9\r\n`), 401, 'close'],
  ] as const) {
    const [answer] = await converse(port, [request.replace('KEY', key)]);
    const { date = '', ...headers } = answer?.headers ?? {};
    const seconds = connection === 'close' ? undefined : `timeout=${limits.keepAliveMs / 1000}`;
    expect([answer?.status, headers.connection, headers['keep-alive']], request).toEqual([status, connection, seconds]);
    expect(Math.abs(Date.parse(date) - Date.now()), request).toBeLessThan(60_000);
  }
  const stopping = await startApp({ draining: () => true });
  for (const request of [get('/v1/pets'), get('/v1/pets', 'Host: a b\r\n'), get('/account/sign-in')]) {
    const [answer] = await converse(stopping.port, [request.replace('KEY', stopping.key)]);
    expect(answer?.headers.connection, request).toBe('close');
  }
  // Node's own Date header does not ask this clock.
  if (process.env.PLAIN === 'on') return;
  vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2027, 0, 1) });
  onTestFinished(() => void vi.useRealTimers());
  const [later] = await converse(port, [get('/v1/pets').replace('KEY', key)]);
  expect(later?.headers.date).toBe('Fri, 01 Jan 2027 00:00:00 GMT');
});

/** As a setting may have them: browsers send lower case, without the default port. */
const origins = ['https://app.example.com', 'HTTP://B.example.com:80', 'Capacitor://localhost'];
const from = `Origin: ${origins[0]}\r\n`;
const preflight = `${host}${from}Access-Control-Request-Method: POST\r\n`;

/** Errors before and after the route, the key and the body: any stage may write them. */
const errorsOfPages: [status: number, request: string][] = [
  [400, get('/v1/pets/%zz', host + from)],
  [417, get('/v1/pets', `${host}${from}Expect: a\r\n`)],
  [404, get('/nowhere', host + from)],
  [401, get('/v1/pets', host + from)],
  [429, get('/v1/pets', open.replace('KEY', 'none') + from)],
  [413, ask('POST /v1/pets', `${open}${from}${json}Content-Length: 99999\r\n`)],
  [403, ask('POST /account/sign-in', `${host}${from}Content-Length: 0\r\n`)],
];

test.each<[origins: string[] | undefined, origin: string, isAllowed: boolean]>([
  [origins, 'https://app.example.com', true],
  [origins, 'http://b.example.com', true],
  [origins, 'capacitor://localhost', true],
  [origins, 'https://evil.example.net', false],
  [origins, 'null', false],
  [undefined, 'https://app.example.com', false],
])(
  'CORS_ORIGINS %s: whether pages of %s can read successes and errors, with all their headers',
  async (corsOrigins, origin, isAllowed) => {
    const app = await startApp({ corsOrigins, limits: { rejectedKeys: 1 } });
    await converse(app.port, [get('/v1/pets').replace('KEY', 'none')]);
    /** Those that a page may read anyway, or that only its browser uses. */
    const notExposed = ['cache-control', 'content-security-policy', 'vary', 'x-content-type-options'];
    const exposed = Object.keys(readDocument('openapi.yaml').components.headers)
      // Link, of a deprecated operation.
      .filter((name) => name !== 'DeprecationLink' && !notExposed.includes(name.toLowerCase()))
      .sort();
    for (const [status, request] of [[200, get('/v1/pets', open + from)] as const, ...errorsOfPages]) {
      const sent = request.replace('KEY', app.key).replace(origins[0] as string, origin);
      const [{ headers, ...answer }] = (await converse(app.port, [sent])) as [RawAnswer];
      const { vary = '', 'access-control-allow-origin': allow, 'access-control-expose-headers': exposes } = headers;
      expect
        .soft([answer.status, vary.match(/Origin/g)?.length, allow, exposes?.split(', ').sort()], request.slice(0, 200))
        .toEqual([status, corsOrigins && 1, ...(isAllowed ? [origin, exposed] : [undefined, undefined])]);
    }
  },
);

test('CORS_ORIGINS: a preflight of a listed origin gets what a page may send', async () => {
  const app = await startApp({ corsOrigins: origins });
  const vary = { vary: 'Origin' };
  const allow = {
    ...vary,
    'access-control-allow-origin': origins[0],
    'access-control-expose-headers': expect.any(String),
  };
  const methods = { 'access-control-allow-methods': 'GET,HEAD,POST', 'access-control-max-age': '86400' };
  const varies = { vary: 'Origin, Access-Control-Request-Headers' };
  await checkRows(app, [
    [204, { ...allow, ...methods, ...varies }, ask('OPTIONS /v1/pets', preflight)],
    [204, { ...allow, ...methods, ...varies }, ask('OPTIONS /nowhere', preflight)],
    ...['traceparent, tracestate,baggage', 'x-requested-with'].map(
      (asked): Row => [
        204,
        { ...allow, ...methods, ...varies, 'access-control-allow-headers': asked },
        ask('OPTIONS /v1/pets', `${preflight}Access-Control-Request-Headers: ${asked}\r\n`),
      ],
    ),
    [204, { ...allowed, ...allow }, ask('OPTIONS /v1/pets', open + from)],
    [
      204,
      { ...allowed, ...vary },
      ask('OPTIONS /v1/pets', preflight.replace(from, `Authorization: Bearer ${app.key}\r\n`)),
    ],
    [401, { ...error, ...allow, ...challenge() }, ask('OPTIONS /v1/pets', host + from)],
    [401, { ...error, ...allow, ...challenge() }, get('/v1/pets', preflight)],
    [404, { ...error, ...allow }, ask('OPTIONS /nowhere', open + from)],
  ]);
  const unset = await startApp();
  await checkRows(unset, [[401, { ...error, ...challenge() }, ask('OPTIONS /v1/pets', preflight)]]);
});
