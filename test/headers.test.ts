/** One table: which headers each kind of answer carries, and no others. */
import { afterAll, expect, test } from 'vitest';
import { ApiError } from '../src/errors.ts';
import { startApp, type TestApp } from './support/app.ts';
import { converse, type RawAnswer } from './support/raw.ts';
import { figure } from './support/tier.ts';

/** What HTTP itself asks for, and says of this connection. */
const transport = ['date', 'connection', 'keep-alive', 'content-length', 'transfer-encoding'];

const always = {
  'x-request-id': expect.stringMatching(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/),
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};
const json = { 'content-type': 'application/json' };
const kept = {
  'cache-control': 'private, no-cache',
  vary: 'Authorization',
  etag: expect.stringMatching(/^"[\w-]{27}"$/),
};
const notKept = { 'cache-control': 'no-store' };
const failed = { ...json, ...notKept };
const deprecated = { deprecation: '@1795132800', sunset: 'Thu, 05 Dec 2030 00:00:00 GMT' };
const links = { link: expect.stringContaining('rel=') };

type Row = [status: number, headers: object, request: string];

const host = 'Host: animals.example\r\n';
const open = `${host}Authorization: Bearer KEY\r\n`;
const pet = '{"name":"Biscuit","categoryId":7}';
const ask = (line: string, headers = open) => `${line} HTTP/1.1\r\n${headers}\r\n`;
const get = (path: string, headers = open) => ask(`GET ${path}`, headers);
const post = (body = pet, more = '', path = '/v1/pets', type = 'application/json') =>
  `POST ${path} HTTP/1.1\r\n${open}Content-Type: ${type}\r\n${more}Content-Length: ${body.length}\r\n\r\n${body}`;

/** KEY stands for a key with both scopes, READER for one that may only read, ETAG for that of the list. */
const table: Record<string, Row> = {
  'a page': [200, { ...json, ...kept, ...links }, get('/v1/pets')],
  'a page, asked for less plainly': [200, { ...json, ...kept, ...links }, get('/v1/pets?status=sold&limit=1')],
  'a page that is known': [304, { ...kept, ...links }, get('/v1/pets', `${open}If-None-Match: ETAG\r\n`)],
  'an animal': [200, { ...json, ...kept, ...links, ...deprecated }, get('/v1/pets/1')],
  'an animal that is known': [
    304,
    { ...kept, ...links, ...deprecated },
    get('/v1/pets/1', `${open}If-None-Match: *\r\n`),
  ],
  'an animal added': [201, { ...failed, location: expect.stringMatching(/^\/v1\/pets\/\d+$/) }, post()],
  'an animal added before': [
    201,
    { ...failed, location: '/v1/pets/1', 'idempotent-replayed': 'true' },
    post(pet, 'Idempotency-Key: first\r\n'),
  ],
  'a message': [202, failed, post('{"message":"Hello"}', '', '/quickstart/messages')],
  OPTIONS: [204, { allow: 'GET, HEAD, POST, OPTIONS' }, ask('OPTIONS /v1/pets')],
  'the document': [200, { ...kept, 'content-type': 'application/yaml' }, get('/openapi.yaml', host)],
  'the document as JSON': [200, { ...kept, ...json }, get('/openapi.json', host)],
  'the document that is known': [304, kept, get('/openapi.json', `${host}If-None-Match: *\r\n`)],
  'the reference page': [
    200,
    {
      ...kept,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': expect.stringMatching(/^default-src 'none'; script-src 'self'; /),
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
    },
    get('/docs', host),
  ],
  'the way to it': [302, { ...notKept, location: '/docs', vary: 'Accept' }, get('/', `${host}Accept: text/html\r\n`)],
  'a bad parameter': [400, failed, get('/v1/pets?limit=0')],
  'a bad URL': [400, failed, get('/v1/pets/%zz')],
  'a bad body': [400, failed, post('{}')],
  'no HTTP': [400, failed, 'hello\r\n\r\n'],
  'no Host': [400, failed, get('/v1/pets', '')],
  'no key': [401, { ...failed, 'www-authenticate': 'Bearer realm="animal-store"' }, get('/v1/pets', host)],
  'no key, on POST': [
    401,
    { ...failed, 'www-authenticate': 'Bearer realm="animal-store"' },
    post().replace('Authorization', 'X'),
  ],
  'a bad key': [
    401,
    { ...failed, 'www-authenticate': 'Bearer realm="animal-store", error="invalid_token"' },
    get('/v1/pets').replace('KEY', 'none'),
  ],
  'no key, for an animal': [
    401,
    { ...failed, ...links, ...deprecated, 'www-authenticate': 'Bearer realm="animal-store"' },
    get('/v1/pets/1', host),
  ],
  'a key without the scope': [
    403,
    { ...failed, 'www-authenticate': expect.stringContaining('insufficient_scope') },
    post().replace('KEY', 'READER'),
  ],
  'no such animal': [404, { ...failed, ...links, ...deprecated }, get('/v1/pets/999')],
  'no such path': [404, failed, get('/v2')],
  'another method': [405, { ...failed, allow: 'GET, HEAD, POST, OPTIONS' }, ask('PUT /v1/pets')],
  CONNECT: [405, { ...failed, allow: '' }, ask('CONNECT animals.example:443')],
  'too large a body': [413, failed, post(pet.padEnd(70_000))],
  'too long a URL': [414, failed, get(`/v1/pets?cursor=${'a'.repeat(9000)}`)],
  'another type': [415, failed, post(pet, '', '/v1/pets', 'text/plain')],
  'another expectation': [417, failed, get('/v1/pets', `${open}Expect: a-pony\r\n`)],
  'a key for another body': [422, failed, post(pet.replace('7', '8'), 'Idempotency-Key: first\r\n')],
  'too large headers': [431, failed, get('/v1/pets', `${open}X: ${'x'.repeat(20_000)}\r\n`)],
  'an operation that is not there': [501, failed, get('/v1/store/orders')],
};

function namesAndValues({ headers }: RawAnswer): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !transport.includes(name)));
}

const proven = new Set<string>();
afterAll(() => figure(`${proven.size} kinds of answer, each with its headers and no others`));

/** Conducts each row on a connection of its own; `words` are put in place of their names. */
async function prove({ port }: TestApp, rows: Record<string, Row>, words: Record<string, string>): Promise<void> {
  for (const [name, [status, headers, request]] of Object.entries(rows)) {
    const sent = Object.entries(words).reduce((text, [word, value]) => text.replace(word, value), request);
    const answers = await converse(port, [sent]);
    const found = answers.map((answer) => [name, answer.status, namesAndValues(answer)]);
    expect(found).toEqual([[name, status, { ...always, ...headers }]]);
    proven.add(name);
  }
}

test('each answer carries the headers of its kind, and no others', async () => {
  const app = await startApp();
  await app.add({ name: 'Biscuit', categoryId: 7 }, { 'idempotency-key': 'first' });
  const { key: reader } = await app.newKey({ scopes: ['pets:read'] });
  const { etag } = (await app.call('GET', '/v1/pets')).headers;
  await prove(app, table, { KEY: app.key, READER: reader, ETAG: `${etag}` });
});

test('HEAD is told what GET is', async () => {
  const { call } = await startApp();
  const told = async (method: string) => {
    const { headers } = await call(method, '/v1/pets');
    return { ...headers, date: '', 'x-request-id': '', connection: '', 'keep-alive': '' };
  };
  expect(await told('HEAD')).toEqual(await told('GET'));
});

test('so do failures of ours', async () => {
  const app = await startApp();
  const failing = (error: Error) => {
    app.store.pets.list = async () => {
      throw error;
    };
  };
  failing(new Error('a bug'));
  await prove(app, { 'a bug': [500, failed, get('/v1/pets')] }, { KEY: app.key });
  failing(new ApiError('service_unavailable'));
  await prove(app, { 'no store': [503, { ...failed, 'retry-after': '1' }, get('/v1/pets')] }, { KEY: app.key });
});

test('and an operation that has come to its end', async () => {
  const app = await startApp();
  app.setTime(new Date('2030-12-05T00:00:00Z'));
  await prove(app, { removed: [410, { ...failed, ...links, ...deprecated }, get('/v1/pets/1')] }, { KEY: app.key });
});

test('and those that a limit brings about', async () => {
  const limits = { maxInFlight: 100, maxConnections: 100, requestsPerMinute: 1, refusalsPerMinute: 1 };
  const app = await startApp({ limits });
  const seconds = { 'ratelimit-reset': expect.stringMatching(/^\d+$/), 'retry-after': expect.stringMatching(/^\d+$/) };
  const rates = { 'ratelimit-limit': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': seconds['ratelimit-reset'] };
  const challenge = { 'www-authenticate': 'Bearer realm="animal-store", error="invalid_token"' };
  const bad = get('/v1/pets').replace('KEY', 'none');
  const rows: Record<string, Row> = {
    'the last request of a key': [200, { ...json, ...kept, ...links, ...rates }, get('/v1/pets')],
    'one more': [429, { ...failed, ...rates, ...seconds }, get('/v1/pets')],
    'the last refused key of an address': [401, { ...failed, ...challenge }, bad],
    'one more of those': [429, { ...failed, 'retry-after': seconds['retry-after'] }, bad],
  };
  await prove(app, rows, { KEY: app.key });
});
