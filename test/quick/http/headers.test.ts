/** Tests the exact set of headers of each kind of response. */
import { afterAll, expect, test } from 'vitest';
import { ApiError } from '../../../src/core/errors.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { converse, type RawAnswer } from '../../support/raw.ts';
import { figure } from '../../support/tier.ts';

/** Headers of HTTP itself and of the connection. They are not compared. */
const transport = ['date', 'connection', 'keep-alive', 'content-length', 'transfer-encoding'];

const always = {
  'x-request-id': expect.stringMatching(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/),
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};
const json = { 'content-type': 'application/json' };
const revalidated = {
  'cache-control': 'private, no-cache',
  vary: 'Authorization',
  etag: expect.stringMatching(/^"[\w-]{27}"$/),
};
const inCodings = { ...revalidated, 'cache-control': 'public, no-cache', vary: 'Accept-Encoding' };
const notStored = { 'cache-control': 'no-store' };
const jsonNotStored = { ...json, ...notStored };
const deprecated = { deprecation: '@1795132800', sunset: 'Thu, 05 Dec 2030 00:00:00 GMT' };
const links = { link: expect.stringContaining('rel=') };

const page = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': expect.stringMatching(/^default-src 'none'; script-src 'self'; /),
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
};

type Row = [status: number, headers: object, request: string];

const host = 'Host: animals.example\r\n';
const open = `${host}Authorization: Bearer KEY\r\n`;
const pet = '{"name":"Biscuit","categoryId":7}';
const ask = (line: string, headers = open) => `${line} HTTP/1.1\r\n${headers}\r\n`;
const get = (path: string, headers = open) => ask(`GET ${path}`, headers);
const post = (body = pet, more = '', path = '/v1/pets', type = 'application/json') =>
  `POST ${path} HTTP/1.1\r\n${open}Content-Type: ${type}\r\n${more}Content-Length: ${body.length}\r\n\r\n${body}`;

/** KEY stands for a key with both scopes, READER for one with pets:read only, ETAG for the ETag of the list. */
const table: Record<string, Row> = {
  'a page': [200, { ...json, ...revalidated, ...links }, get('/v1/pets')],
  'a filtered page': [200, { ...json, ...revalidated, ...links }, get('/v1/pets?status=sold&limit=1')],
  'a page, not modified': [304, { ...revalidated, ...links }, get('/v1/pets', `${open}If-None-Match: ETAG\r\n`)],
  'a pet': [200, { ...json, ...revalidated, ...links, ...deprecated }, get('/v1/pets/1')],
  'a pet, not modified': [
    304,
    { ...revalidated, ...links, ...deprecated },
    get('/v1/pets/1', `${open}If-None-Match: *\r\n`),
  ],
  'a created pet': [201, { ...jsonNotStored, location: expect.stringMatching(/^\/v1\/pets\/\d+$/) }, post()],
  'a replayed creation': [
    201,
    { ...jsonNotStored, location: '/v1/pets/1', 'idempotent-replayed': 'true' },
    post(pet, 'Idempotency-Key: first\r\n'),
  ],
  'a message': [202, jsonNotStored, post('{"message":"Hello"}', '', '/quickstart/messages')],
  OPTIONS: [204, { allow: 'GET, HEAD, POST, OPTIONS' }, ask('OPTIONS /v1/pets')],
  'OPTIONS *': [204, { allow: 'GET, HEAD, POST, OPTIONS' }, ask('OPTIONS *', host)],
  'the document': [200, { ...inCodings, 'content-type': 'application/yaml' }, get('/openapi.yaml', host)],
  'the document as JSON': [200, { ...inCodings, ...json }, get('/openapi.json', host)],
  'the document, compressed': [
    200,
    { ...inCodings, ...json, 'content-encoding': 'gzip' },
    get('/openapi.json', `${host}Accept-Encoding: gzip\r\n`),
  ],
  'the document, not modified': [304, inCodings, get('/openapi.json', `${host}If-None-Match: *\r\n`)],
  'the reference page': [200, { ...inCodings, ...page }, get('/docs', host)],
  'the redirect to the reference page': [
    302,
    { ...notStored, location: '/docs' },
    get('/', `${host}Accept: text/html\r\n`),
  ],
  'the redirect to a page without the slash': [308, { ...notStored, location: '/docs' }, get('/docs/', host)],
  'a bad parameter': [400, jsonNotStored, get('/v1/pets?limit=0')],
  'a bad URL': [400, jsonNotStored, get('/v1/%zz')],
  'a bad URL of a pet': [400, { ...jsonNotStored, ...links, ...deprecated }, get('/v1/pets/%zz')],
  'a bad body': [400, jsonNotStored, post('{}')],
  'not HTTP': [400, jsonNotStored, 'hello\r\n\r\n'],
  'no Host': [400, jsonNotStored, get('/v1/pets', '')],
  'no key': [401, { ...jsonNotStored, 'www-authenticate': 'Bearer realm="animal-store"' }, get('/v1/pets', host)],
  'no key, on POST': [
    401,
    { ...jsonNotStored, 'www-authenticate': 'Bearer realm="animal-store"' },
    post().replace('Authorization', 'X'),
  ],
  'a bad key': [
    401,
    { ...jsonNotStored, 'www-authenticate': 'Bearer realm="animal-store", error="invalid_token"' },
    get('/v1/pets').replace('KEY', 'none'),
  ],
  'no key, for a pet': [
    401,
    { ...jsonNotStored, ...links, ...deprecated, 'www-authenticate': 'Bearer realm="animal-store"' },
    get('/v1/pets/1', host),
  ],
  'a key without the scope': [
    403,
    { ...jsonNotStored, 'www-authenticate': expect.stringContaining('insufficient_scope') },
    post().replace('KEY', 'READER'),
  ],
  'no such pet': [404, { ...jsonNotStored, ...links, ...deprecated }, get('/v1/pets/999')],
  'no such path': [404, jsonNotStored, get('/v2', `${host}Accept: text/html\r\n`)],
  'a slash at the end': [404, jsonNotStored, get('/v1/pets/')],
  'an unsupported method': [405, { ...jsonNotStored, allow: 'GET, HEAD, POST, OPTIONS' }, ask('PUT /v1/pets')],
  CONNECT: [405, { ...jsonNotStored, allow: '' }, ask('CONNECT animals.example:443')],
  'a body that is too large': [413, jsonNotStored, post(pet.padEnd(70_000))],
  'a URL that is too long': [414, jsonNotStored, get(`/v1/pets?cursor=${'a'.repeat(9000)}`)],
  'an unsupported media type': [415, jsonNotStored, post(pet, '', '/v1/pets', 'text/plain')],
  'a content coding': [
    415,
    { ...jsonNotStored, 'accept-encoding': 'identity' },
    post(pet, 'Content-Encoding: gzip\r\n'),
  ],
  'a precondition that does not hold': [412, jsonNotStored, post(pet, 'If-None-Match: *\r\n')],
  'an unsupported expectation': [417, jsonNotStored, get('/v1/pets', `${open}Expect: a-pony\r\n`)],
  'an Idempotency-Key reused for another body': [
    422,
    jsonNotStored,
    post(pet.replace('7', '8'), 'Idempotency-Key: first\r\n'),
  ],
  'headers that are too large': [431, jsonNotStored, get('/v1/pets', `${open}X: ${'x'.repeat(20_000)}\r\n`)],
  'an operation that is not implemented': [501, jsonNotStored, get('/v1/store/orders')],
};

function namesAndValues({ headers }: RawAnswer): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !transport.includes(name)));
}

const tested = new Set<string>();
afterAll(() => figure(`${tested.size} kinds of response, each with its headers and no others`));

/** Sends each row on its own connection, with each name in `words` replaced by its value, and checks the headers. */
async function checkRows({ port }: TestApp, rows: Record<string, Row>, words: Record<string, string>): Promise<void> {
  for (const [name, [status, headers, request]] of Object.entries(rows)) {
    const sent = Object.entries(words).reduce((text, [word, value]) => text.replace(word, value), request);
    const answers = await converse(port, [sent]);
    const found = answers.map((answer) => [name, answer.status, namesAndValues(answer)]);
    expect(found).toEqual([[name, status, { ...always, ...headers }]]);
    tested.add(name);
  }
}

test('each response carries the headers of its kind and no others', async () => {
  const app = await startApp();
  await app.add({ name: 'Biscuit', categoryId: 7 }, { 'idempotency-key': 'first' });
  const { key: reader } = await app.newKey({ scopes: ['pets:read'] });
  const { etag } = (await app.call('GET', '/v1/pets')).headers;
  await checkRows(app, table, { KEY: app.key, READER: reader, ETAG: `${etag}` });
});

test('500 and 503 carry their headers and no others', async () => {
  const app = await startApp();
  const failing = (error: Error) => {
    app.store.pets.list = async () => {
      throw error;
    };
  };
  failing(new Error('a bug'));
  await checkRows(app, { 'a bug': [500, jsonNotStored, get('/v1/pets')] }, { KEY: app.key });
  failing(new ApiError('service_unavailable'));
  await checkRows(
    app,
    { 'an unavailable store': [503, { ...jsonNotStored, 'retry-after': '1' }, get('/v1/pets')] },
    { KEY: app.key },
  );
});

test('410 carries its headers and no others', async () => {
  const app = await startApp();
  app.setTime(new Date('2030-12-05T00:00:00Z'));
  await checkRows(
    app,
    { removed: [410, { ...jsonNotStored, ...links, ...deprecated }, get('/v1/pets/1')] },
    { KEY: app.key },
  );
});

test('the responses of the rate limits carry their headers and no others', async () => {
  const app = await startApp({ requestsPerMinute: 1, bounds: { rejectedKeys: 1 } });
  const seconds = { 'ratelimit-reset': expect.stringMatching(/^\d+$/), 'retry-after': expect.stringMatching(/^\d+$/) };
  const rates = { 'ratelimit-limit': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': seconds['ratelimit-reset'] };
  const challenge = { 'www-authenticate': 'Bearer realm="animal-store", error="invalid_token"' };
  const bad = get('/v1/pets').replace('KEY', 'none');
  const rows: Record<string, Row> = {
    'the last request that RATE_LIMIT allows': [200, { ...json, ...revalidated, ...links, ...rates }, get('/v1/pets')],
    'one request more': [429, { ...jsonNotStored, ...rates, ...seconds }, get('/v1/pets')],
    'the last rejected key that is allowed': [401, { ...jsonNotStored, ...challenge }, bad],
    'one rejected key more': [429, { ...jsonNotStored, 'retry-after': seconds['retry-after'] }, bad],
  };
  await checkRows(app, rows, { KEY: app.key });
});
