/** Tests of the reference pages at /docs, of their files, and of the redirect to them. */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { renderPage } from '../../../scripts/reference.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { projectFolder } from '../../support/project.ts';

/** The addresses of all links of a page, as the page gives them. */
const linksOf = (html: string) => [...html.matchAll(/ (?:href|src)="([^"]*)"/g)].map(([, link]) => link as string);

describe('GET /docs', () => {
  test.each(['/docs', '/docs/quickstart'])(
    '%s may connect only to its origin and run only its own scripts and styles',
    async (path) => {
      const { get } = await startApp();
      const { headers, text } = await get(path, { key: null });
      const own = ['script', 'style', 'img', 'connect'].map((kind) => `${kind}-src 'self'`);
      const none = ['form-action', 'base-uri', 'frame-ancestors'].map((kind) => `${kind} 'none'`);
      expect(headers['content-security-policy']).toBe(["default-src 'none'", ...own, ...none].join('; '));
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

  test('says, as sign-up does, that all accounts see all animals', async () => {
    const { get } = await startApp();
    for (const path of ['/docs', '/account/sign-up'])
      expect((await get(path, { key: null })).text, path).toContain('All accounts see all animals.');
  });

  test.each([
    ['open', /class="button" href="account\/sign-up">Create an account</, /[Aa]sk the operator/],
    ['invitation', /Ask the operator of the service for an invitation\.[\s\S]*href="account">sign in/, /sign-up/],
    ['off', /Ask the operator of the service for a key\.[\s\S]*href="account">sign in/, /sign-up/],
    ['none', /Ask the operator of the service for one\./, /account/],
  ] as const)(
    'SIGN_UP=%s: the steps and the header offer what it allows, and say whom to ask',
    async (signUp, has, no) => {
      const { text } = await (await startApp({ signUp })).get('/docs', { key: null });
      const [, start = ''] = /<main([\s\S]*?)id="start\/call"/.exec(text) ?? [];
      const [, header = ''] = /<header>([\s\S]*?)<\/header>/.exec(text) ?? [];
      expect(start).toMatch(has);
      expect(start).not.toMatch(no);
      expect(/operator/.test(header)).toBe(signUp !== 'open');
    },
  );

  test('no link is broken', async () => {
    const links = await follow(await startApp({ quickstartBasePath: '/first' }), ['/docs', '/docs/quickstart']);
    const expected = ['/docs/quickstart', '/account/sign-up', '/account', '/docs', '/docs/changelog'];
    expect(links).toEqual(expect.arrayContaining([...expected, '/openapi.json', '/first/openapi.yaml']));
  });

  test('no link is broken without the account pages and the quickstart, which are not mentioned then', async () => {
    const app = await startApp({ signUp: 'none', quickstartBasePath: undefined });
    expect((await follow(app, ['/docs'])).join()).not.toMatch(/account|quickstart/);
    expect((await app.get('/docs')).text).not.toContain('/account');
    for (const path of ['/docs/quickstart', '/quickstart/openapi.json']) expect((await app.get(path)).status).toBe(404);
  });

  test.each([
    ['https://example.com/a/v1', 'https://example.com/a'],
    [undefined, undefined],
  ])('names in its samples the address of BASE_URL %s, whatever Host is', async (baseUrl, known) => {
    const { get, url } = await startApp({ baseUrl, quickstartBasePath: '/q' });
    const address = known ?? url;
    const textOf = async (path: string) => (await get(path, { headers: { host: 'store.example:81' } })).text;
    expect(await textOf('/docs')).toContain(`${address}/v1/pets`);
    expect(await textOf('/docs/quickstart')).toContain(`${address}/q/messages`);
  });

  test('returns 500 if a file cannot be read, and 200 once it can', async () => {
    let broken = true;
    const { get } = await startApp({
      readFile: (name) => (broken ? Promise.reject(new Error('EIO')) : readFile(projectFolder + name)),
    });
    expect((await get('/docs')).json).toMatchObject({ code: 'internal_error' });
    broken = false;
    expect((await get('/docs')).status).toBe(200);
  });
});

test('the schemas show their limits without a click, and every object and enumeration is a model', async () => {
  const { text } = await (await startApp()).get('/docs', { key: null });
  const models = [...text.matchAll(/<h3 id="animal-store\/model\/(\w+)"/g)].map(([, name]) => name);
  expect(models).toEqual(expect.arrayContaining(['Error', 'NewPet', 'Pet', 'PetStatus']));
  const [, field = ''] = /<div id="animal-store\/model\/NewPet\/name">([\s\S]*?)<\/div>/.exec(text) ?? [];
  expect(field).toContain('string, 1 to 1000 characters, matches <code>^[^\\x00]+$</code>');
  expect(text).toMatch(/id="animal-store\/tag\/pets\/createPet\/body\/status">.*?PetStatus<\/a>: <code>available</s);
  expect(text).toMatch(/It may exceed 2\^53.*?BigInt\(context\.source\)/);
});

test('the changelog shows releases only: what is for those who call the API first, and the rest folded', async () => {
  const { get } = await startApp();
  const { text } = await get('/docs/changelog', { key: null });
  expect(text).not.toMatch(/Unreleased|\[\d/);
  const [, release = ''] = /<h2 id="1\.1\.0[^>]*>([\s\S]*?)<h2 /.exec(text) ?? [];
  const parts = [...release.matchAll(/(<details><summary>)?<h3 [^>]*>(?:<a [^>]*>)?([^<]*)/g)];
  expect(parts.map(([, folded, title]) => `${title}${folded ? ', folded' : ''}`)).toEqual([
    'For those who call the API',
    'Before you upgrade, folded',
    'For those who run it, folded',
  ]);
});

test.each([
  ...['choices.js', 'page.js', 'panel.js', 'account.js'].map((name) => [name, 'text/javascript'] as const),
  ...['page.css', 'account.css'].map((name) => [name, 'text/css'] as const),
  ['icon.svg', 'image/svg+xml'],
] as const)('/docs/%s is %s without comments, and 304 to a matching If-None-Match', async (name, type) => {
  const { get } = await startApp();
  const { headers, text } = await get(`/docs/${name}`, { key: null });
  expect(headers['content-type']).toMatch(type);
  expect(text).not.toMatch(/^\s*(\/\/|\/\*)/m);
  const again = await get(`/docs/${name}`, { headers: { 'if-none-match': headers.etag as string } });
  expect([again.status, again.text]).toEqual([304, '']);
});

test('what browsers, robots and language models ask for unseen is there, without a key', async () => {
  const { get, url } = await startApp();
  const read = (path: string) => get(path, { key: null });
  const types = {
    '/favicon.ico': 'image/svg+xml',
    '/robots.txt': 'text/plain',
    '/llms.txt': 'text/markdown; charset=utf-8',
  };
  for (const [path, type] of Object.entries(types)) {
    const { status, headers } = await read(path);
    expect([path, status, headers['content-type']]).toEqual([path, 200, type]);
  }
  expect((await read('/robots.txt')).text).toContain('Disallow: /account\n');
  const { text } = await read('/llms.txt');
  expect(text).toMatch(/^# Animal Store\n\nA store of animals\./);
  const links = [...text.matchAll(/^- \[.*\]\((.*)\)$/gm)].map(([, link]) => link as string);
  expect(links).toEqual([`${url}/openapi.yaml`, `${url}/docs`, `${url}/docs/changelog`]);
  for (const link of links) expect((await fetch(link)).status, link).toBe(200);
});

describe('the page of a document', () => {
  const render = (more: object) =>
    renderPage(
      'animal-store.html',
      stringify({
        info: { title: 'A', description: 'B.' },
        servers: [{ url: 'https://{host}/v1', variables: { host: { default: 'api.example.com' } } }],
        tags: [{ name: 'Pets' }],
        paths: {
          '/pets': { get: { operationId: 'listPets', summary: 'List', tags: ['Pets'], responses: {}, ...more } },
        },
        components: { schemas: {}, securitySchemes: {} },
      }),
    );

  test('shows its text as text, never as HTML', () => {
    const html = render({ summary: '<b>List</b>', description: 'Send <API_KEY> <img src=x onerror=alert(1)>.' });
    expect(html).toContain('Send &lt;API_KEY&gt; &lt;img');
    expect(html).toContain('&lt;b&gt;List');
  });

  test('has a stability mark where the document says so', () => {
    expect(render({ 'x-stability': 'beta' })).toMatch(/class="mark[^>]*>beta</);
  });
});

test.each([
  [undefined, 'text/html,*/*;q=0.8', '/docs'],
  ['https://example.com/animals/v1', 'text/html,*/*;q=0.8', 'https://example.com/animals/docs'],
  [undefined, 'application/json', undefined],
  [undefined, '*/*', undefined],
  [undefined, '', undefined],
])(
  'GET / redirects a browser to the page, and tells other clients the addresses: BASE_URL %s, Accept %s',
  async (baseUrl, accept, location) => {
    const { get } = await startApp({ baseUrl });
    const { status, headers, json } = await get('/', { headers: { accept } });
    expect([status, headers.location]).toEqual([location ? 302 : 200, location]);
    if (!location) expect(json.openapi).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/openapi\.json$/);
  },
);
