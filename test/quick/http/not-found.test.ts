/** Tests of paths without an operation: a slash at the end, the redirects to pages, and the message that says where the API is. */
import { request } from 'undici';
import { expect, test } from 'vitest';
import { createMetrics } from '../../../src/http/metrics.ts';
import { startApp } from '../../support/app.ts';
import { converse } from '../../support/raw.ts';

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'QUERY', 'M-SEARCH'];

test('a slash at the end of each path that is served is 404 to every method, with and without a key', async () => {
  const urls = new Set<string>();
  const metrics = createMetrics('test');
  const {
    url: root,
    key,
    log,
  } = await startApp({
    metrics,
    watch: async (bare) => void bare.addHook('onRoute', ({ url }) => void urls.add(url)),
  });
  const paths = [...urls]
    .filter((url) => url !== '/')
    .flatMap((url) => [url.replace(/:\w+/g, '1'), url.replace(/\/:\w+$/, '')])
    .map((url) => (url.endsWith('/') ? url : `${url}/`));
  expect(paths).toEqual(expect.arrayContaining(['/v1/pets/', '/v1/pets/1/', '/docs/', '/account/keys/1/rotate/']));
  const found = new Map<string, string>();
  for (const path of new Set(paths))
    for (const method of methods)
      for (const credentials of [{}, { authorization: `Bearer ${key}` }]) {
        // A form from another site would be 403.
        const headers = { ...credentials, 'sec-fetch-site': 'same-origin' };
        const answer = await request(root + path, { method, headers });
        const text = await answer.body.text();
        const code = method === 'HEAD' || text === '' ? '' : JSON.parse(text).code;
        const marks = ['deprecation', 'allow', 'www-authenticate', 'location'].filter((name) => name in answer.headers);
        const isRedirect = ['GET', 'HEAD'].includes(method) && ['/docs/', '/account/'].includes(path);
        const expected = isRedirect ? '308  location' : method === 'HEAD' ? '404 ' : '404 route_not_found';
        const summary = [answer.statusCode, code, ...marks].join(' ');
        if (summary !== expected) found.set(`${method} ${path}`, summary);
      }
  expect([...found]).toEqual([]);
  expect(log()).toMatch(/"method":"GET","route":null,"path":"\/v1\/pets\/","status":404/);
});

test.each([
  [undefined, ''],
  ['https://example.com/animals/v1', 'https://example.com/animals'],
])('the message of a 404 says where the API is, and redirects lead to a page: BASE_URL %s', async (baseUrl, root) => {
  const { call, port } = await startApp({ baseUrl, signUp: 'none' });
  const nothing = 'There is nothing at this path.';
  const where = `The API is below ${root}/v1, for example GET ${root}/v1/pets; ${root}/docs describes it.`;
  const messageOf = async (line: string) => {
    const [answer] = await converse(port, [`${line} HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n`]);
    expect([line, answer?.status]).toEqual([line, 404]);
    return JSON.parse(answer?.text as string).message;
  };
  for (const target of ['/', '/v1', '/v1/nowhere', '/x?<script>/', '/?b/', 'http://a/', 'HTTP://a/', 'http://a', '*'])
    expect(await messageOf(`GET ${target}`), target).toBe(`${nothing} ${where}`);
  for (const line of [
    'POST /docs/',
    'GET /v1/',
    'GET /v1/pets/?limit=1',
    'GET //',
    'GET http://a/docs/x/',
    'GET http://a//',
  ])
    expect(await messageOf(line), line).toBe(`${nothing} No path ends in a slash. ${where}`);
  const answer = await call('HEAD', '/docs/?from=mail', { key: null });
  expect([answer.status, answer.headers.location]).toEqual([308, `${root}/docs`]);
  // The account pages are switched off.
  expect((await call('GET', '/account/', { key: null })).json.code).toBe('route_not_found');
});
