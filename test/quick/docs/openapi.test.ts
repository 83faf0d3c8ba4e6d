/** Tests of the generated OpenAPI documents and of the routes that serve them. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { isKeyOf, newSecret, type Scope } from '../../../src/core/accounts.ts';
import { errorMessages } from '../../../src/core/errors.ts';
import { startApp } from '../../support/app.ts';
import { type Document, prefixes, type Response, readDocument, readFile, responseOf } from '../../support/described.ts';
import { resolved } from '../../support/valid-requests.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const committed = (name: string) => readFileSync(path.join(root, name), 'utf8');
const names = ['openapi.yaml', 'openapi.quickstart.yaml'] as const;
const openapi = parse(committed('openapi.yaml'));

interface Described {
  requestBody?: { content: Record<'application/json', { schema: { $ref?: string } }> };
}

describe('the OpenAPI documents', () => {
  test('are served as they are committed, with this server as the first', async () => {
    const { call } = await startApp();
    const line = '\n  - {"url":"/v1","description":"This server"}';
    const { text } = await call('GET', '/openapi.yaml', { key: null });
    expect(text.split(line).join('')).toBe(committed('openapi.yaml'));
    expect(parse(text).servers[0]).toEqual({ url: '/v1', description: 'This server' });
    expect((await call('GET', '/openapi.json', { key: null })).json).toEqual(parse(text));
  });

  test('are served with the address of this server in their examples, and without links to pages that it lacks', async () => {
    const { call } = await startApp({ baseUrl: 'https://example.com/animals/v1', signUp: 'none' });
    for (const name of ['/openapi.yaml', '/openapi.json']) {
      const { info, components } = parse((await call('GET', name, { key: null })).text);
      expect(info.description).toContain(
        "curl -H 'Authorization: Bearer <API_KEY>' https://example.com/animals/v1/pets\n",
      );
      expect(info.description).toMatch(/^1\. Create an account .+\n2\. Make an API key, and copy it/m);
      expect(components.headers.Location.example).toBe('https://example.com/animals/v1/pets/1');
    }
  });

  test('list the headers of a deprecated operation where it sends them, and nowhere else', () => {
    const isListed = ({ headers = {} }: Response) => 'Deprecation' in headers && 'Sunset' in headers;
    const document = readFile('openapi.yaml');
    for (const { operationId, deprecated, responses } of Object.values(document.paths).flatMap(Object.values)) {
      const listing = Object.keys(responses).filter((status) =>
        isListed(responseOf(document, responses[status] as Response)),
      );
      // These come before the path is read.
      const sending = Object.keys(responses).filter((status) => !['408', '431'].includes(status));
      expect([operationId, listing]).toEqual([operationId, deprecated ? sending : []]);
    }
  });

  test('describe exactly the routes that are operations', async () => {
    const operations = new Set<string>();
    const routes = new Set<string>();
    await startApp({
      watch: async (app) => {
        app.addHook('onRoute', ({ method, url, config }) => {
          if (config?.operation) operations.add(url);
          if (config?.operation || (method === 'OPTIONS' && operations.has(url)))
            routes.add(`${method} ${url.replace(/:(\w+)/g, '{$1}')}`);
        });
      },
    });
    const methodsOf = ({ paths }: Document, prefix: string) =>
      Object.entries(paths).flatMap(([url, item]) =>
        Object.keys(item).map((method) => `${method.toUpperCase()} ${prefix}${url}`),
      );
    const described = names.flatMap((name) => methodsOf(readDocument(name), prefixes[name]));
    expect([...routes].sort()).toEqual(described.sort());
    // The introduction describes the others.
    const listed = names.flatMap((name) => methodsOf(readFile(name), prefixes[name]));
    expect([...routes].filter((route) => !/^(HEAD|OPTIONS) /.test(route)).sort()).toEqual(listed.sort());
  });

  test('and the reference and account pages are the only other routes', async () => {
    const others = new Set<string>();
    await startApp({
      watch: async (app) => {
        app.addHook('onRoute', ({ method, url, config }) => {
          if (!config?.operation && !Array.isArray(method) && method !== 'OPTIONS') others.add(`${method} ${url}`);
        });
      },
    });
    const documents = ['/openapi.json', '/openapi.yaml', '/quickstart/openapi.json', '/quickstart/openapi.yaml'];
    const scripts = ['choices', 'page', 'panel', 'search', 'account'].map((name) => `/docs/${name}.js`);
    const page = [
      '/',
      '/docs',
      '/docs/',
      '/docs/quickstart',
      '/docs/changelog',
      '/docs/page.css',
      '/docs/account.css',
      '/docs/icon.svg',
      ...scripts,
    ];
    const account = ['/account/', '/account', '/account/keys/:id', '/account/settings'];
    const forms = [
      ...['sign-up', 'sign-in', 'sign-out', 'sign-out-everywhere', 'links/:token', 'password', 'delete'],
      ...['keys', 'keys/:id/rotate', 'keys/:id/revoke'],
    ].map((name) => `/account/${name}`);
    const expected = [...documents, ...page, ...account, ...forms].flatMap((url) => [`GET ${url}`, `HEAD ${url}`]);
    expect([...others].sort()).toEqual([...expected, ...forms.map((url) => `POST ${url}`)].sort());
  });

  test('state the contract', () => {
    const paths = resolved(openapi, openapi.paths) as typeof openapi;
    const { get: list, post: create } = paths['/pets'];
    const { get } = paths['/pets/{petId}'];
    const orders = paths['/store/orders'].get;
    expect(openapi).toMatchObject({ openapi: '3.1.0', info: { version: '1.0.0' }, security: [{ apiKey: [] }] });
    expect(openapi.components.securitySchemes.apiKey).toMatchObject({ type: 'http', scheme: 'bearer' });
    expect(openapi.servers.map(({ description }: { description: string }) => description)).toEqual([
      'Production',
      'Staging',
    ]);
    for (const { url } of openapi.servers) expect(url).toMatch(/\/v1$/);
    expect(openapi.tags.map(({ name }: { name: string }) => name)).toEqual(['Pets', 'Store']);
    expect([list, create, get, orders].map(({ operationId, tags }) => [operationId, tags[0]])).toEqual([
      ['listPets', 'Pets'],
      ['createPet', 'Pets'],
      ['getPet', 'Pets'],
      ['listOrders', 'Store'],
    ]);
    expect(list.parameters[0]).toMatchObject({
      name: 'limit',
      required: false,
      schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
    });
    expect(get.parameters[0]).toMatchObject({
      name: 'petId',
      in: 'path',
      required: true,
      schema: { type: 'integer', format: 'int64' },
    });
    expect(get).toMatchObject({ deprecated: true, 'x-deprecated-sunset': '2030-12-05' });
    expect([list, create].map(({ deprecated }) => deprecated)).toEqual([undefined, undefined]);
    expect(orders).toMatchObject({ 'x-hideTryItPanel': true });
    expect(JSON.stringify(openapi)).not.toContain('x-stability');
    const { NewPet, Pet, PetStatus, Error: ErrorSchema } = openapi.components.schemas;
    expect(PetStatus.enum).toEqual(['available', 'pending', 'sold']);
    expect(NewPet.required).toEqual(['name', 'categoryId']);
    expect(NewPet.properties.categoryId).toMatchObject({ type: 'integer', format: 'int64' });
    expect(NewPet.properties.status).toMatchObject({ default: 'available' });
    expect(Pet.required).toEqual(['id', 'name', 'categoryId']);
    expect(Pet.properties.id).toMatchObject({ type: 'integer', format: 'int64', minimum: 1, maximum: 2 ** 53 - 1 });
    const closed = (name: string) => openapi.components.schemas[name].additionalProperties === false;
    const sent = Object.values(openapi.paths as Record<string, Record<string, Described>>).flatMap((item) =>
      Object.values(item).flatMap(({ requestBody }) => requestBody?.content['application/json'].schema.$ref ?? []),
    );
    expect(sent).toContain('#/components/schemas/NewPet');
    expect(Object.keys(openapi.components.schemas).filter(closed)).toEqual(sent.map((ref) => ref.split('/').at(-1)));
    expect(ErrorSchema.required).toEqual(['code', 'message', 'status']);
  });

  test('begin with three steps, whose links lead from both documents of the animal store to the account pages', async () => {
    const { url } = await startApp();
    const [steps] = openapi.info.description.split('\n\nYou can list');
    expect(steps.match(/^\d\. (\[.*?\]|List)/gm)).toEqual([
      '1. [Create an account]',
      '2. [Make an API key]',
      '3. List',
    ]);
    const links = [...steps.matchAll(/\]\((.*?)\)/g)].map(([, link]) => link as string);
    for (const from of ['/openapi.yaml', '/docs']) {
      const pages = await Promise.all(links.map((link) => fetch(new URL(link, url + from))));
      expect(pages.map((page) => [page.status, page.url])).toEqual([
        [200, `${url}/account/sign-up`],
        [200, `${url}/account/sign-in`],
      ]);
    }
  });

  test.each(names)('%s states the form of a key', (name) => {
    const { bearerFormat, description } = parse(committed(name)).components.securitySchemes.apiKey;
    for (const live of [true, false]) {
      const { key } = newSecret(live);
      expect(isKeyOf(live, key)).toBe(true);
      expect(key).toMatch(new RegExp(bearerFormat));
      expect(description).toContain(`${key.length} characters`);
      expect(description).toContain(`\`${key.slice(0, 9)}\` in ${live ? 'production' : 'any other deployment'}`);
      expect(description).toContain(`then ${key.length - 9} letters and digits`);
    }
  });

  test('name the scope that each operation needs, in its security and in the security scheme', async () => {
    const { call, newKey } = await startApp();
    const keys = {
      'pets:read': await newKey({ scopes: ['pets:read'] }),
      'pets:write': await newKey({ scopes: ['pets:write'] }),
    };
    const needed: Record<string, string[]> = { 'pets:read': [], 'pets:write': [], none: [] };
    for (const name of names) {
      for (const [url, methods] of Object.entries(readDocument(name).paths))
        for (const [method, { operationId, security }] of Object.entries(methods)) {
          const target = prefixes[name] + url.replace(/\{\w+\}/g, '1');
          const statusWith = async (scope: Scope) =>
            (await call(method.toUpperCase(), target, { key: keys[scope].key })).status;
          const [reader, writer] = [await statusWith('pets:read'), await statusWith('pets:write')];
          const scope = writer === 403 ? 'pets:read' : reader === 403 ? 'pets:write' : 'none';
          expect(security, operationId).toEqual([{ apiKey: scope === 'none' ? [] : [scope] }]);
          if (['get', 'post'].includes(method)) needed[scope]?.push(operationId);
        }
    }
    const described = names
      .map((name) => parse(committed(name)).components.securitySchemes.apiKey.description)
      .join('\n');
    const found = (pattern: RegExp) =>
      pattern
        .exec(described)?.[1]
        ?.split(/, | and /)
        .sort();
    expect(needed['pets:read']?.sort()).toEqual(found(/`pets:read` is needed by (.*?)\./));
    expect(needed['pets:write']?.sort()).toEqual(found(/`pets:write` is needed by (.*?)\./));
    expect(needed.none?.sort()).toEqual(
      [...described.matchAll(/(\w+(?:, \w+)*(?: and \w+)?) needs? no scope/g)]
        .flatMap(([, ids]) => (ids as string).split(/, | and /))
        .sort(),
    );
  });

  test('list the error codes for programs, open to more, except the one that only the account pages send', () => {
    const codes = Object.keys(errorMessages).filter((name) => name !== 'forbidden');
    for (const name of names) {
      const document = committed(name);
      const { code } = parse(document).components.schemas.Error.properties;
      const named = new Set([...document.matchAll(/code: (\w+)/g)].map(([, found]) => found));
      for (const outside of ['invalid_url', 'route_not_found', 'method_not_allowed']) named.add(outside);
      const expected = codes.filter((known) => name === 'openapi.yaml' || named.has(known));
      expect(code).toMatchObject({ type: 'string', 'x-extensible-enum': expected });
      expect(code).not.toHaveProperty('enum');
      for (const known of expected) expect(known).toMatch(new RegExp(code.pattern));
    }
  });

  test('say that every animal has its status, which the schema does not require', () => {
    const { required, description } = openapi.components.schemas.Pet;
    expect(required).not.toContain('status');
    expect(description).toContain('Every response has its status, although the schema does not require it.');
  });

  test('describe nothing of the quickstart that it lacks', () => {
    expect(committed('openapi.quickstart.yaml')).not.toMatch(/GET|HEAD|ETag|403|304|insufficient_scope/);
  });

  test.each(names)('%s reads alike in YAML 1.1 and 1.2', (name) => {
    const text = committed(name);
    expect(parse(text, { version: '1.1' })).toEqual(parse(text, { version: '1.2' }));
  });

  test.each(names)('%s has only patterns that mean the same in RE2, PCRE and ECMAScript', (name) => {
    const patterns = new Set<string>();
    JSON.stringify(parse(committed(name)), (key, value) => {
      if (key === 'pattern') patterns.add(value);
      return value;
    });
    expect(patterns.size).toBeGreaterThan(1);
    for (const pattern of patterns) {
      // One class of characters. \d is also Arabic digits in Python and .NET, and \u is unknown to RE2 and PCRE.
      expect(pattern).toMatch(/^\^@?\[(\^\\x00|[!-~]+)\][*+]\$$/);
      expect(pattern).not.toMatch(/\\[^x]/);
    }
  });
});

describe('GET /openapi.json and /openapi.yaml', () => {
  test('return the committed document without a key, with this server listed first', async () => {
    const { call } = await startApp();
    const json = await call('GET', '/openapi.json', { key: null });
    const yaml = await call('GET', '/openapi.yaml', { key: null });
    expect([json.headers['content-type'], yaml.headers['content-type']]).toEqual([
      'application/json',
      'application/yaml',
    ]);
    const expected = { ...openapi, servers: [{ url: '/v1', description: 'This server' }, ...openapi.servers] };
    expect(json.json).toEqual(expected);
    expect(parse(yaml.text)).toEqual(expected);
  });

  test('return the quickstart document below QUICKSTART_BASE_PATH, with its own server first', async () => {
    const { call } = await startApp({ quickstartBasePath: '/first', baseUrl: 'https://example.com/animals/v1' });
    const [server, ...others] = (await call('GET', '/first/openapi.json', { key: null })).json.servers;
    expect(server).toEqual({ url: 'https://example.com/animals/first', description: 'This server' });
    expect(others).toEqual(parse(committed('openapi.quickstart.yaml')).servers);
  });

  test('ignore the query', async () => {
    const { call } = await startApp();
    expect((await call('GET', '/openapi.json?version=1')).status).toBe(200);
  });

  test('return 304 to a matching If-None-Match', async () => {
    const { call } = await startApp();
    const { etag } = (await call('GET', '/openapi.yaml')).headers;
    expect((await call('GET', '/openapi.yaml', { headers: { 'if-none-match': etag as string } })).status).toBe(304);
  });

  test('return 405 to other methods', async () => {
    const { call } = await startApp();
    expect(await call('POST', '/openapi.json')).toMatchObject({
      status: 405,
      headers: { allow: 'GET, HEAD, OPTIONS' },
    });
  });
});
