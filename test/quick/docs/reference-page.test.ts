/** Tests of the reference pages at /docs, of their files, and of the redirect to them. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { renderPage } from '../../../scripts/reference.ts';
import { documents, startApp, type TestApp } from '../../support/app.ts';
import { startServer } from '../../support/process.ts';

const file = (name: string) => readFileSync(new URL(`../../../src/pages/${name}`, import.meta.url));
const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

interface Described {
  operationId: string;
  tags: [string];
  deprecated?: boolean;
}

/** The addresses of all links of a page, as the page gives them. */
const linksOf = (html: string) => [...html.matchAll(/ (?:href|src)="([^"]*)"/g)].map(([, link]) => link as string);

describe('GET /docs', () => {
  test.each(['/docs', '/docs/quickstart'])(
    '%s returns a page without a key; it may connect only to its origin and run only its own scripts and styles',
    async (path) => {
      const { call } = await startApp();
      const { status, headers, text } = await call('GET', path, { key: null });
      expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
      expect((headers['content-security-policy'] as string).split('; ')).toEqual([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
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
      expect(text).not.toMatch(/<script>|<style|\s(on\w+|style)=|\{\{|<!--/);
      expect(linksOf(text).filter((link) => /^\w+:|^\//.test(link))).toEqual([]);
    },
  );

  /** Follows every link of the pages, and returns the addresses of those within the server. */
  async function follow({ url }: TestApp, paths: string[]): Promise<string[]> {
    const followed = new Set<string>();
    for (const path of paths) {
      const html = await (await fetch(url + path)).text();
      for (const link of linksOf(html)) {
        if (link.startsWith('#')) expect(html, link).toContain(` id="${link.slice(1)}"`);
        else followed.add(new URL(link, url + path).href);
      }
    }
    for (const link of followed) expect((await fetch(link)).status, link).toBe(200);
    return [...followed].map((link) => link.slice(url.length));
  }

  test('no link is broken', async () => {
    const links = await follow(await startApp({ quickstartBasePath: '/first/messages' }), [
      '/docs',
      '/docs/quickstart',
    ]);
    expect(links).toEqual(expect.arrayContaining(['/docs/quickstart', '/account/sign-up', '/account', '/docs']));
    expect(links).toEqual(expect.arrayContaining(['/openapi.json', '/first/messages/openapi.json']));
    expect(links).toEqual(expect.arrayContaining(['/openapi.yaml', '/first/messages/openapi.yaml', '/docs/changelog']));
  });

  test('no link is broken without the account pages and the quickstart, which are not mentioned then', async () => {
    const app = await startApp({ signUp: 'none', quickstartBasePath: undefined });
    expect((await follow(app, ['/docs'])).join()).not.toMatch(/account|quickstart/);
    expect((await app.call('GET', '/docs')).text).toContain('Ask the operator of the service for one.');
    expect((await app.call('GET', '/docs')).text).not.toContain('/account');
    expect((await app.call('GET', '/docs/quickstart')).status).toBe(404);
  });

  test.each([
    ['https://example.com/animals/v1', 'https://example.com/animals/v1/pets', 'https://example.com/animals/q/messages'],
    [undefined, 'http://store.example:81/v1/pets', 'http://store.example:81/q/messages'],
  ])('names the address of this server in its samples: BASE_URL %s', async (baseUrl, pets, messages) => {
    const { call } = await startApp({ baseUrl, quickstartBasePath: '/q' });
    const host = { host: 'store.example:81' };
    expect((await call('GET', '/docs', { headers: host })).text).toContain(pets);
    expect((await call('GET', '/docs/quickstart', { headers: host })).text).toContain(messages);
  });

  test('names each address that browsers use, and keeps that of the examples for a host that is not plain', async () => {
    const { call } = await startApp();
    for (const name of ['one.example', 'two.example:8080', 'one.example'])
      expect((await call('GET', '/docs', { headers: { host: name } })).text).toContain(`http://${name}/v1/pets`);
    for (const name of ["a'b", '[::1]:80', '$&'])
      expect((await call('GET', '/docs', { headers: { host: name } })).text).toContain(
        'https://api.example.com/v1/pets',
      );
  });

  test('is made for few addresses in a second, whatever hosts clients name', async () => {
    const { call } = await startApp();
    let own = 0;
    const begun = performance.now();
    for (let at = 0; at < 100; at++) {
      const host = `host${at}.example`;
      const { text } = await call('GET', '/docs', { headers: { host } });
      if (text.includes(host)) own += 1;
      else expect(text).toContain('https://api.example.com/v1/pets');
    }
    const seconds = Math.floor((performance.now() - begun) / 1000) + 2;
    expect(own).toBeGreaterThan(0);
    expect(own).toBeLessThanOrEqual(10 * seconds);
  });

  test('has a link to itself at each heading, and each id once', async () => {
    const { call } = await startApp();
    for (const path of ['/docs', '/docs/quickstart', '/docs/changelog']) {
      const { text } = await call('GET', path);
      const headings = text.match(/<h[1-6].*?<\/h[1-6]>/g) ?? [];
      expect(headings.length, path).toBeGreaterThan(5);
      for (const heading of headings) {
        const [, id] = /<a href="#([^"]+)">/.exec(heading) ?? [];
        expect(text, heading).toContain(` id="${id}"`);
      }
      const ids = [...text.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
      expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
    }
  });

  test('returns 405 to other methods', async () => {
    const { call } = await startApp();
    expect(await call('POST', '/docs')).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD, OPTIONS' } });
  });

  test('returns 500 if a file cannot be read, and 200 once it can', async () => {
    let broken = true;
    const { call } = await startApp({
      readFile: async (name) => {
        if (broken) throw new Error('EIO');
        return file(name);
      },
    });
    expect((await call('GET', '/docs')).json).toMatchObject({ code: 'internal_error' });
    broken = false;
    expect((await call('GET', '/docs')).status).toBe(200);
  });
});

describe('the files of the page', () => {
  const scripts = ['copy.js', 'quoting.js', 'reference.js', 'samples.js', 'contents.js'];

  /** The lines of a file that are not part of a comment. */
  function withoutComments(text: string): string {
    let within = false;
    const kept = text.split('\n').filter((line) => {
      const start = line.trim();
      const isComment = within || start.startsWith('//') || start.startsWith('/*');
      within = (within || start.startsWith('/*')) && !start.endsWith('*/');
      return !isComment;
    });
    return kept.join('\n');
  }

  test.each([
    ['choices.js', 'text/javascript; charset=utf-8', ['choices.js']],
    ['page.js', 'text/javascript; charset=utf-8', scripts],
    ['panel.js', 'text/javascript; charset=utf-8', ['panel.js']],
    ['search.js', 'text/javascript; charset=utf-8', ['search.js']],
    [
      'page.css',
      'text/css; charset=utf-8',
      ['style', 'reference', 'contents', 'samples', 'print'].map((name) => `${name}.css`),
    ],
    ['icon.svg', 'image/svg+xml', ['icon.svg']],
    ['account.css', 'text/css; charset=utf-8', ['style.css', 'account.css']],
    ['account.js', 'text/javascript; charset=utf-8', ['copy.js', 'account.js']],
  ])('/docs/%s returns 200 without comments, and 304 to a matching If-None-Match', async (name, type, parts) => {
    const { call } = await startApp();
    const { status, headers, text } = await call('GET', `/docs/${name}`, { key: null });
    expect([status, headers['content-type'], text]).toEqual([200, type, withoutComments(parts.map(file).join(''))]);
    const again = await call('GET', `/docs/${name}`, { headers: { 'if-none-match': headers.etag as string } });
    expect([again.status, again.text]).toEqual([304, '']);
  });

  test('the page is compressed for clients that accept gzip', async () => {
    const { url } = await startApp();
    const fetchAs = (accepted: string) => fetch(`${url}/docs`, { headers: { 'accept-encoding': accepted } });
    const [gzip, plain] = await Promise.all(['gzip', 'gzip;q=0'].map(fetchAs));
    expect([gzip?.headers.get('content-encoding'), plain?.headers.get('content-encoding')]).toEqual(['gzip', null]);
    expect(Number(gzip?.headers.get('content-length'))).toBeLessThan(20_000);
    expect(await gzip?.text()).toBe(await plain?.text());
  });
});

describe('the pages', () => {
  /** The page of a document with one operation, GET /pets, and anything else that `more` adds to it. */
  function render(more: object, parts: object = {}): string {
    const operation = { operationId: 'listPets', summary: 'List', tags: ['Pets'], responses: {}, ...more };
    return renderPage(
      'animal-store.html',
      stringify({
        info: { title: 'A', description: 'B.' },
        servers: [{ url: 'https://{host}/v1', variables: { host: { default: 'api.example.com' } } }],
        tags: [{ name: 'Pets' }],
        paths: { '/pets': { get: operation } },
        components: { schemas: {}, securitySchemes: {}, ...parts },
      }),
    );
  }

  test('show shared parameters, responses, headers and examples, wherever the document keeps them', () => {
    const ref = (section: string, name: string) => ({ $ref: `#/components/${section}/${name}` });
    const html = render(
      { parameters: [ref('parameters', 'Limit')], responses: { 200: ref('responses', 'Page') } },
      {
        parameters: {
          Limit: { name: 'limit', in: 'query', description: 'How many.', schema: { type: 'integer', minimum: 1 } },
        },
        responses: {
          Page: {
            description: 'A page.',
            headers: { Link: ref('headers', 'Link') },
            content: { 'application/json': { schema: { type: 'array' }, examples: { one: ref('examples', 'One') } } },
          },
        },
        headers: { Link: { description: 'The next page.' } },
        examples: { One: { summary: 'One animal', value: [{ id: 9007199254740991 }] } },
      },
    );
    for (const said of ['How many.', 'integer, at least 1', 'A page.', 'The next page.', '200: One animal'])
      expect(html).toContain(said);
    expect(html).toContain('9007199254740991');
  });

  test('name the headers of a deprecated operation at that operation only', () => {
    const html = renderPage('animal-store.html', documents.animalStore);
    const announcing = html
      .split('<section class="operation" id="')
      .filter((part) => /Headers<\/a>:.*Sunset/.test(part));
    const paths = Object.values(parse(documents.animalStore).paths as Record<string, Record<string, Described>>);
    const deprecated = paths
      .flatMap(({ head, options, ...operations }) => Object.values(operations))
      .filter((operation) => operation.deprecated)
      .map(({ tags, operationId }) => `animal-store/tag/${tags[0].toLowerCase()}/${operationId}`);
    expect(deprecated).toContain('animal-store/tag/pets/getPet');
    expect(announcing.map((part) => part.replace(/".*/s, '')).sort()).toEqual(deprecated.sort());
  });

  test('have no entries for HEAD and OPTIONS', () => {
    const document = parse(documents.animalStore);
    for (const method of ['head', 'options'])
      document.paths['/pets'][method] = {
        operationId: `${method}Pets`,
        summary: 'Side',
        tags: ['Pets'],
        responses: {},
      };
    const html = renderPage('animal-store.html', stringify(document));
    expect(html).not.toMatch(/Side|headPets|optionsPets/);
  });

  test('show text of the document as text, never as HTML', () => {
    const html = render({ summary: '<b>List</b>', description: 'Send <API_KEY> <img src=x onerror=alert(1)>.' });
    expect(html).toContain('Send &lt;API_KEY&gt; &lt;img');
    expect(html).toContain('&lt;b&gt;List');
  });

  test('cannot be made if a reference leads nowhere or a tag is not declared', () => {
    expect(() => render({ responses: { 200: { $ref: '#/components/responses/None' } } })).toThrow('does not exist');
    expect(() => render({ tags: ['Plants'] })).toThrow('tag that is not declared');
  });
});

test('the server finds the page among its own files', async () => {
  const { url } = await startServer();
  for (const name of ['/docs', '/docs/page.js']) expect((await fetch(url + name)).status).toBe(200);
});

describe('GET /', () => {
  test.each([
    [undefined, '/docs'],
    ['https://example.com/animals/v1', 'https://example.com/animals/docs'],
  ])('redirects a browser to the page: BASE_URL %s', async (baseUrl, location) => {
    const { call } = await startApp({ baseUrl });
    const answer = await call('GET', '/', { key: null, headers: browser });
    expect(answer).toMatchObject({ status: 302, headers: { location, 'cache-control': 'no-store' } });
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
