/** Tests of the reference page at /docs, of its files, and of the redirect to it. */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { documents, startApp } from './support/app.ts';
import { startServer } from './support/process.ts';

const projectFile = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url));
const file = (name: string) => projectFile(`reference/${name}`);
const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

describe('GET /docs', () => {
  test('returns the page without a key; it may connect only to its origin and run only its own scripts', async () => {
    const { call } = await startApp();
    const { status, headers, text } = await call('GET', '/docs', { key: null });
    expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect((headers['content-security-policy'] as string).split('; ')).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self' 'unsafe-inline'",
      "img-src 'self' data:",
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ]);
    expect(headers).toMatchObject({
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
    });
    expect(text).not.toMatch(/<script>|\son\w+=|https?:/);
  });

  test('links to both documents, or to one if there is no quickstart', async () => {
    const linked = async (quickstartBasePath?: string) => {
      const { call } = await startApp({ quickstartBasePath });
      const { text } = await call('GET', '/docs');
      expect(text).not.toContain('{{');
      return text.split('\n').filter((line) => line.includes('service-desc'));
    };
    const link = (href: string, slug: string, server: string) =>
      `    <link rel="service-desc" href="${href}" data-slug="${slug}" data-server="${server}">`;
    const animals = link('openapi.json', 'animal-store', 'v1');
    expect(await linked()).toEqual([animals]);
    const messages = link('first/messages/openapi.json', 'messages-quickstart', 'first/messages');
    expect(await linked('/first/messages')).toEqual([animals, messages]);
  });

  test('returns 405 to other methods', async () => {
    const { call } = await startApp();
    expect(await call('POST', '/docs')).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD, OPTIONS' } });
  });

  test('returns 500 if a file cannot be read, and 200 once it can', async () => {
    let broken = true;
    const { call } = await startApp({
      readPageFile: async (name) => {
        if (broken) throw new Error('EIO');
        return projectFile(name);
      },
    });
    expect((await call('GET', '/docs')).json).toMatchObject({ code: 'internal_error' });
    broken = false;
    expect((await call('GET', '/docs')).status).toBe(200);
  });
});

describe('the files of the page', () => {
  test.each([
    ['page.js', 'text/javascript; charset=utf-8'],
    ['page.css', 'text/css; charset=utf-8'],
    ['icon.svg', 'image/svg+xml'],
  ])('/docs/%s returns 200, and 304 to a matching If-None-Match', async (name, type) => {
    const { call } = await startApp();
    const { status, headers, text } = await call('GET', `/docs/${name}`, { key: null });
    expect([status, headers['content-type'], text]).toEqual([200, type, file(name).toString()]);
    const again = await call('GET', `/docs/${name}`, { headers: { 'if-none-match': headers.etag as string } });
    expect([again.status, again.text]).toEqual([304, '']);
  });

  test('/docs/renderer.js has the recorded checksum, and is compressed for clients that accept gzip', async () => {
    const { url, call } = await startApp();
    const { sha256 } = JSON.parse(file('renderer.json').toString());
    expect(hash('sha256', gunzipSync(file('renderer.js.gz')))).toBe(sha256);
    const etags = new Set<string | null>();
    for (const [accepted, encoding] of [
      ['gzip, deflate, br', 'gzip'],
      ['gzip;q=0.5', 'gzip'],
      ['GZIP ; q=0.001', 'gzip'],
      ['gzip;q=0', null],
      ['gzip;q=0, identity', null],
      ['gzip ; q=0.000', null],
      ['identity', null],
    ] as const) {
      const answer = await fetch(`${url}/docs/renderer.js`, { headers: { 'accept-encoding': accepted } });
      expect([answer.status, answer.headers.get('content-encoding')], accepted).toEqual([200, encoding]);
      expect(answer.headers.get('vary')).toContain('Accept-Encoding');
      expect(hash('sha256', Buffer.from(await answer.arrayBuffer()))).toBe(sha256);
      etags.add(answer.headers.get('etag'));
    }
    expect(etags).toContain((await call('GET', '/docs/renderer.js')).headers.etag);
    expect(etags.size).toBe(2);
  });
});

test('the server finds the page among its own files', async () => {
  const { url } = await startServer();
  for (const name of ['/docs', '/docs/renderer.js']) expect((await fetch(url + name)).status).toBe(200);
});

describe('GET /', () => {
  test.each([
    [undefined, '/docs'],
    ['https://example.com/animals/v1', 'https://example.com/animals/docs'],
  ])('redirects a browser to the page: BASE_URL %s', async (baseUrl, location) => {
    const { call } = await startApp({ baseUrl });
    const answer = await call('GET', '/', { key: null, headers: browser });
    expect(answer).toMatchObject({ status: 302, headers: { location, vary: 'Accept', 'cache-control': 'no-store' } });
  });

  test.each([{ accept: 'application/json' }, { accept: '*/*' }, {}])(
    'returns 404 route_not_found to other clients: %s',
    async (headers) => {
      const { call } = await startApp();
      const answer = await call('GET', '/', { headers });
      expect(answer).toMatchObject({ status: 404, json: { code: 'route_not_found' } });
    },
  );
});

test('the rel="deprecation" link points to an operation of the document', async () => {
  const { call } = await startApp();
  const { link } = (await call('GET', '/v1/pets/1')).headers;
  const [, group, operation] = /<\/docs#animal-store\/tag\/(\w+)\/(\w+)>; rel="deprecation"/.exec(link as string) ?? [];
  expect([group, operation]).toEqual(['pets', 'getPet']);
  expect(documents.animalStore).toContain(`operationId: ${operation}\n`);
});
