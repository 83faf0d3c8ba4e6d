/** Tests of paths without an operation: a slash at the end, the two redirects, OPTIONS *, and the message that says where the API is. */
import { request } from 'undici';
import { describe, expect, test } from 'vitest';
import { startApp, type TestApp } from '../../support/app.ts';
import { converse } from '../../support/raw.ts';

const nothing = 'There is nothing at this path.';
const api = 'The API is below /v1, for example GET /v1/pets; /docs describes it.';

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'QUERY', 'M-SEARCH'];

/** Starts the server and collects the URLs of its routes. */
async function startWatched(options: Parameters<typeof startApp>[0] = {}) {
  const urls = new Set<string>();
  const app = await startApp({
    watch: async (bare) => void bare.addHook('onRoute', ({ url }) => void urls.add(url)),
    ...options,
  });
  return { app, urls: [...urls] };
}

/** Sends a request without a body over a socket of its own. */
async function send({ port }: TestApp, method: string, target: string, headers = '') {
  const [answer] = await converse(port, [`${method} ${target} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`]);
  return answer as NonNullable<typeof answer>;
}

describe('a path with a slash at its end', () => {
  test('returns 404 route_not_found to every method, with and without a key: after each path that is served', async () => {
    const { app, urls } = await startWatched();
    const paths = urls
      .filter((url) => url !== '/')
      .flatMap((url) => [url.replace(/:\w+/g, '1'), url.replace(/\/:\w+$/, '')])
      .map((url) => (url.endsWith('/') ? url : `${url}/`));
    expect(paths).toEqual(
      expect.arrayContaining([
        ...['/v1/pets/', '/v1/pets/1/', '/v1/store/orders/', '/docs/', '/openapi.json/', '/quickstart/messages/'],
        ...['/account/', '/account/sign-in/', '/account/links/', '/account/links/1/', '/account/keys/1/rotate/'],
      ]),
    );
    const found = new Map<string, string[]>();
    const isRedirect = (method: string, path: string) =>
      ['GET', 'HEAD'].includes(method) && ['/docs/', '/account/'].includes(path);
    for (const path of new Set(paths))
      for (const method of methods.filter((each) => !isRedirect(each, path)))
        for (const key of [{}, { authorization: `Bearer ${app.key}` }]) {
          // A form from another site would be 403.
          const headers = { ...key, 'sec-fetch-site': 'same-origin' };
          const answer = await request(app.url + path, { method, headers });
          const text = await answer.body.text();
          const code = method === 'HEAD' ? 'route_not_found' : JSON.parse(text).code;
          const marks = ['deprecation', 'sunset', 'allow', 'www-authenticate'].filter((name) => name in answer.headers);
          const summary = [answer.statusCode, code, ...marks].join(' ');
          found.set(summary, [...(found.get(summary) ?? []), `${method} ${path}`]);
        }
    expect([...found.keys()], JSON.stringify([...found])).toEqual(['404 route_not_found']);
  });

  test('/v1/pets/ is not a call of the deprecated operation, and its log line names no route', async () => {
    const app = await startApp();
    expect((await app.call('GET', '/v1/pets/')).json).toEqual({
      code: 'route_not_found',
      message: `${nothing} No path ends in a slash. ${api}`,
      status: 404,
    });
    expect(app.log()).toMatch(/"method":"GET","route":null,"path":"\/v1\/pets\/","status":404/);
  });
});

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

describe('the pages with a slash at their end', () => {
  test.each([
    [undefined, ''],
    ['https://example.com/animals/v1', 'https://example.com/animals'],
  ])('redirect GET and HEAD to the page: BASE_URL %s', async (baseUrl, root) => {
    const { call } = await startApp({ baseUrl });
    for (const page of ['/docs', '/account'])
      for (const method of ['GET', 'HEAD'])
        for (const accept of [browser, '*/*']) {
          const { status, headers, text } = await call(method, `${page}/?from=mail`, {
            key: null,
            headers: { accept },
          });
          expect([status, headers.location, text]).toEqual([308, root + page, '']);
        }
  });

  test('do not lead to account pages that are switched off', async () => {
    const { call } = await startApp({ signUp: 'none' });
    expect((await call('GET', '/account/', { key: null })).json.code).toBe('route_not_found');
  });
});

test('an unknown path is the same JSON error for every client, whatever it accepts', async () => {
  const { call } = await startApp();
  for (const path of ['/doc', '/docs/page.js/', '/docs/quickstart/', '/v1', '/v1/pets/', '/quickstart/nowhere']) {
    for (const accept of [browser, '*/*', undefined]) {
      const { status, headers, json } = await call('GET', path, { key: null, headers: accept ? { accept } : {} });
      expect([path, status, json.code, headers.vary]).toEqual([path, 404, 'route_not_found', undefined]);
    }
  }
});

describe('the message of a 404', () => {
  test.each([
    [undefined, api],
    [
      'https://example.com/animals/v1',
      'The API is below https://example.com/animals/v1, for example GET https://example.com/animals/v1/pets; https://example.com/animals/docs describes it.',
    ],
  ])('says where the API is, and repeats nothing of the request: BASE_URL %s', async (baseUrl, where) => {
    const { call } = await startApp({ baseUrl });
    for (const path of ['/', '/pets', '/v1', '/v1/nowhere', '/x?<script>/', '/quickstart']) {
      const headers = { accept: '*/*' };
      expect((await call('GET', path, { key: null, headers })).json.message, path).toBe(`${nothing} ${where}`);
    }
    for (const path of ['/docs/', '/v1/', '/v1/pets/?limit=1', '//'])
      expect((await call('POST', path, { key: null, body: 'x', type: 'text/plain' })).json.message, path).toBe(
        `${nothing} No path ends in a slash. ${where}`,
      );
  });

  test('names the slash at the end of the path of an absolute URL, but not that of the root', async () => {
    const app = await startApp();
    const messageOf = async (target: string) => JSON.parse((await send(app, 'GET', target)).text).message;
    for (const target of ['http://a/', 'HTTP://a/', 'http://a', 'http://a/?b/', '/?b/', '/'])
      expect(await messageOf(target), target).toBe(`${nothing} ${api}`);
    for (const target of ['http://a/docs/x/', 'http://a//', 'http://a/v1/pets/?limit=1', '/docs/x/'])
      expect(await messageOf(target), target).toBe(`${nothing} No path ends in a slash. ${api}`);
  });
});

describe.each([undefined, ['https://app.example.com']])('OPTIONS, with CORS_ORIGINS %s', (corsOrigins) => {
  const origins = ['', 'Origin: https://app.example.com\r\n'];

  test('* returns 204 with what the server allows (RFC 9110, section 9.3.7)', async () => {
    const app = await startApp({ corsOrigins });
    for (const headers of [...origins, 'Content-Type: text/plain\r\nContent-Length: 0\r\n']) {
      const answer = await send(app, 'OPTIONS', '*', headers);
      expect([answer.status, answer.headers.allow, answer.text]).toEqual([204, 'GET, HEAD, POST, OPTIONS', '']);
      expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    }
    expect((await send(app, 'GET', '*')).status).toBe(404);
  });

  test('of an unknown path returns 404, whatever its body', async () => {
    const app = await startApp({ corsOrigins });
    for (const headers of [...origins, 'Content-Type: text/plain\r\nContent-Length: 0\r\n'])
      for (const path of ['/nowhere', '/v1/nowhere', '/v1/pets/']) {
        const answer = await send(app, 'OPTIONS', path, headers);
        expect([path, answer.status, answer.headers.allow]).toEqual([path, 404, undefined]);
      }
  });
});
