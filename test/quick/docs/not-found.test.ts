/** Tests of unknown paths: people who mistype an address get a redirect or a page, programs the JSON error. */
import { describe, expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

describe('an unknown path', () => {
  test.each([
    ['/docs/', '/docs'],
    ['/docs/?from=mail', '/docs'],
    ['/docs/quickstart/', '/docs/quickstart'],
    ['/account/', '/account'],
  ])('%s redirects a browser to %s with any method', async (path, location) => {
    const { call } = await startApp();
    for (const method of methods) {
      const { status, headers, text } = await call(method, path, { key: null, headers: { accept: browser } });
      expect([method, status, headers.location, headers.vary, text]).toEqual([method, 308, location, 'Accept', '']);
    }
  });

  test('redirects below the public address', async () => {
    const { call } = await startApp({ baseUrl: 'https://example.com/animals/v1' });
    const { headers } = await call('GET', '/docs/', { key: null, headers: { accept: browser } });
    expect(headers.location).toBe('https://example.com/animals/docs');
    const { text } = await call('GET', '/doc', { key: null, headers: { accept: browser } });
    expect(text).toContain('href="/animals/docs"');
  });

  test.each(['/doc', '/documentation', '/pets', '/docs/page.js/', '/login?next=/docs'])(
    '%s is a page with links for a browser, with any method',
    async (path) => {
      const { call } = await startApp();
      for (const method of methods) {
        const { status, headers, text } = await call(method, path, { key: null, headers: { accept: browser } });
        expect([method, status]).toEqual([method, 404]);
        expect(headers).toMatchObject({
          'content-type': 'text/html; charset=utf-8',
          'cache-control': 'no-store',
          vary: 'Accept',
        });
        expect(headers['content-security-policy']).toContain("script-src 'self'");
        if (method === 'HEAD') expect(text).toBe('');
        else expect(text).toMatch(/<h1>Not found<\/h1>.*href="\/docs".*href="\/docs\/quickstart".*href="\/account"/s);
      }
    },
  );

  test('has no links to pages that are switched off', async () => {
    const { call } = await startApp({ signUp: 'none', quickstartBasePath: undefined });
    const { text } = await call('GET', '/doc', { key: null, headers: { accept: browser } });
    expect(text.match(/<a href="[^"]*"/g)).toEqual(['<a href="/docs"']);
    expect((await call('GET', '/account/', { key: null, headers: { accept: browser } })).status).toBe(404);
  });

  test.each([
    '*/*',
    'application/json',
    'application/json, text/html',
    'text/html;q=0.5, application/json',
    'text/html;q=0',
    undefined,
  ])('is the JSON error for a client that accepts %s', async (accept) => {
    const { call } = await startApp();
    for (const path of ['/docs/', '/account/', '/doc']) {
      const { status, headers, json } = await call('GET', path, { key: null, headers: accept ? { accept } : {} });
      expect([path, status, json.code, headers.vary]).toEqual([path, 404, 'route_not_found', 'Accept']);
    }
  });

  test.each(['text/html', 'TEXT/*;q=0.2', 'application/json;q=0.1, text/html; level=1; q=0.2'])(
    'is a page for a client that prefers pages: %s',
    async (accept) => {
      const { call } = await startApp();
      expect((await call('GET', '/doc', { key: null, headers: { accept } })).headers['content-type']).toContain('html');
    },
  );

  test.each(['/v1', '/v1/', '/v1/nowhere', '/v1/pets/', '/quickstart', '/quickstart/nowhere'])(
    '%s is the JSON error for every client, whatever it accepts',
    async (path) => {
      const { call } = await startApp();
      for (const accept of [browser, '*/*']) {
        const { status, headers, json } = await call('GET', path, { headers: { accept } });
        expect([status, json.code, headers.vary]).toEqual([404, 'route_not_found', undefined]);
      }
    },
  );

  test('keeps Origin in Vary if other origins may call', async () => {
    const { call } = await startApp({ corsOrigins: ['https://app.example.com'] });
    for (const accept of [browser, '*/*']) {
      const { headers } = await call('GET', '/doc', { key: null, headers: { accept } });
      expect(String(headers.vary).split(', ').sort()).toEqual(['Accept', 'Origin']);
    }
  });
});
