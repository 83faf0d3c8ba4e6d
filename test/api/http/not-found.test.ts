/** Tests of paths without an operation: a slash at the end, the redirects to pages, and the message that says where the API is. */
import { expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';
import { converse } from '../../support/raw.ts';

test('a slash at the end of each path that is served is 404 to every method', async () => {
  const urls = new Set<string>();
  const { call } = await startApp({
    watch: async (bare) => void bare.addHook('onRoute', ({ url }) => void urls.add(url)),
  });
  const paths = [...urls].map((url) => `${url.replace(/:\w+/g, '1')}/`).filter((path) => !path.endsWith('//'));
  expect(paths).toEqual(expect.arrayContaining(['/v1/pets/', '/v1/pets/1/', '/docs/', '/account/keys/1/rotate/']));
  // A form from another site would be 403.
  const headers = { 'sec-fetch-site': 'same-origin' };
  for (const path of paths)
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'OPTIONS', 'PROPFIND']) {
      const { status, headers: sent } = await call(method, path, { headers, ...(method === 'POST' && { body: '{' }) });
      const isRedirect = ['GET', 'HEAD'].includes(method) && ['/docs/', '/account/'].includes(path);
      expect([method, path, status, sent.allow]).toEqual([method, path, isRedirect ? 308 : 404, undefined]);
    }
});

test.each([
  [undefined, ''],
  ['https://example.com/animals/v1', 'https://example.com/animals'],
])('the message of a 404 says where the API is, and redirects lead to a page: BASE_URL %s', async (baseUrl, root) => {
  const { call, get, port } = await startApp({ baseUrl });
  const nothing = 'There is nothing at this path.';
  const where = `The API is below ${root}/v1, for example GET ${root}/v1/pets; ${root}/docs describes it.`;
  const messageOf = async (line: string) => {
    const [answer] = await converse(port, [`${line} HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n`]);
    expect([line, answer?.status]).toEqual([line, 404]);
    return JSON.parse(answer?.text as string).message;
  };
  for (const target of ['/v1/nowhere', '/x?<script>/'])
    expect(await messageOf(`GET ${target}`), target).toBe(`${nothing} ${where}`);
  for (const line of ['POST /docs/', 'GET /v1/pets/?limit=1', 'GET //', 'GET http://a/docs/x/'])
    expect(await messageOf(line), line).toBe(`${nothing} No path ends in a slash. ${where}`);
  const asBrowser = { key: null, headers: { accept: 'text/html,*/*;q=0.8' } };
  // A person has typed these. Those below /v1 are for programs.
  for (const path of ['/nope', '/docs/nope', '/v10', '/a/v1/pets']) {
    const { status, headers, text } = await get(path, asBrowser);
    expect([status, headers['content-type']], path).toEqual([404, 'text/html; charset=utf-8']);
    // Under whatever name the browser found the server.
    const start = root.replace('https://example.com', '');
    expect(text).toContain(`<a href="${start}/docs">The reference`);
    expect(text).toContain(`<a href="${start}/account">API keys`);
    expect(text).toContain(`<link rel="stylesheet" href="${start}/docs/page.css">`);
  }
  for (const [method, path] of [
    ['GET', '/v1/nope'],
    ['GET', '/v1'],
    ['POST', '/nope'],
  ] as const) {
    const { status, json } = await call(method, path, asBrowser);
    expect([status, json.code], `${method} ${path}`).toEqual([404, 'route_not_found']);
  }
  const head = await call('HEAD', '/nope', asBrowser);
  expect([head.status, head.headers['content-type']]).toEqual([404, 'text/html; charset=utf-8']);
  const answer = await call('HEAD', '/docs/?from=mail', { key: null });
  expect([answer.status, answer.headers.location]).toEqual([308, `${root}/docs`]);
});
