/** Tests of the generated OpenAPI documents and of the routes that serve them. */
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { startApp } from '../../support/app.ts';
import { type Document, documentNames, prefixes, readDocument, readFile } from '../../support/described.ts';
import { read } from '../../support/project.ts';

const document = read('openapi.yaml');
const openapi = parse(document);

describe('the OpenAPI documents', () => {
  test('are served without a key, and with the address of this server in place of the examples', async () => {
    const { get, url } = await startApp({ quickstartBasePath: '/first' });
    // Where it listens: programs that import a document need an absolute address.
    const here = (committed: string) => committed.replaceAll('https://api.example.com', url);
    const server = (path: string) => ({ url: url + path, description: 'This server' });
    const { text, headers } = await get('/openapi.yaml?version=1', { key: null });
    expect(headers['content-type']).toBe('application/yaml');
    expect(parse(text)).toEqual({ ...parse(here(document)), servers: [server('/v1')] });
    const json = await get('/openapi.json', { key: null });
    expect([json.headers['content-type'], json.json]).toEqual(['application/json', parse(text)]);
    const { openapi: version, paths, servers } = (await get('/openapi-3.0.json', { key: null })).json;
    expect([version, Object.keys(paths), servers]).toEqual(['3.0.3', Object.keys(openapi.paths), [server('/v1')]]);
    const quickstart = (await get('/first/openapi.json', { key: null })).json;
    const committed = parse(here(read('openapi.quickstart.yaml')));
    expect(quickstart).toEqual({ ...committed, servers: [server('/first')] });
    // Others may reach it at another address, which is not known.
    for (const options of [{ live: true }, { trustProxy: ['127.0.0.1'] }]) {
      const other = await startApp(options);
      const [first, ...others] = (await other.get('/openapi.json', { key: null })).json.servers;
      expect([first.url, others]).toEqual(['/v1', openapi.servers]);
    }
  });

  test.each([{ baseUrl: 'https://pets.test/animals/v1' }, {}])(
    'are served without an example of an address, and without links to pages that the server lacks: %o',
    async (options) => {
      const { get, url } = await startApp({ ...options, signUp: 'none' });
      const generated = ['/openapi-3.0.json', '/openapi-postman.json', '/openapi-bruno.yml'];
      const both = ['/openapi.yaml', '/openapi.json', '/quickstart/openapi.yaml', '/quickstart/openapi.json'];
      for (const path of [...both, ...generated]) {
        const { text } = await get(path, { key: null });
        expect(text).not.toMatch(/\bexample\.|\]\(account/);
        expect(text).toContain(options.baseUrl?.slice(0, -'/v1'.length) ?? url);
      }
    },
  );

  test('say the same in OpenAPI 3.0, for generators that do not read 3.1', () => {
    // What each version writes in its own way, in one.
    const inOneWay = (part: unknown): unknown => {
      if (Array.isArray(part)) return part.map(inOneWay);
      if (typeof part !== 'object' || part === null) return part;
      const {
        const: only,
        allOf: [reference] = [{}],
        example,
        examples = example,
        ...others
      } = part as Record<string, never>;
      const all = {
        ...others,
        ...reference,
        ...(only !== undefined && { enum: [only] }),
        ...(examples !== undefined && { examples: Array.isArray(examples) ? examples[0] : examples }),
      };
      return Object.fromEntries(Object.entries(all).map(([name, value]) => [name, inOneWay(value)]));
    };
    // With every digit: JSON is YAML.
    const [newer, older] = [document, read('openapi-3.0.json')].map((text) => parse(text, { intAsBigInt: true }));
    expect(Object.keys(older.paths)).toEqual(Object.keys(newer.paths));
    // In 3.0 only OAuth 2 has scopes.
    for (const [path, item] of Object.entries<object>(newer.paths))
      for (const [method, operation] of Object.entries(item))
        expect(inOneWay(older.paths[path][method]), path).toEqual(
          inOneWay({ ...operation, security: [{ apiKey: [] }] }),
        );
    expect(inOneWay(older.components)).toEqual(inOneWay(newer.components));
    expect(older.components.schemas.NewPet.properties.status.allOf).toEqual([
      { $ref: '#/components/schemas/PetStatus' },
    ]);
  });

  test('fit tools with their default options', () => {
    const { components, paths } = openapi;
    const { parameters, responses } = paths['/pets'].get;
    const optional = [...parameters, ...Object.values(components.parameters)].filter(
      ({ required }) => required === false,
    );
    expect(optional.length).toBeGreaterThan(3);
    // Swagger UI fills the first example in, and sends it.
    for (const parameter of optional)
      for (const name of ['example', 'examples']) expect(parameter).not.toHaveProperty(name);
    // Generators require a member that has a default.
    expect(components.schemas.NewPet.properties.status).not.toHaveProperty('default');
    // Mocks send the first example: paging against them must end, and the error be exact.
    expect(Object.values(components.headers.Link.examples)[0]).toEqual({ value: expect.not.stringContaining('next') });
    expect(Object.keys(responses[400].content['application/json'].examples)[0]).toBe('invalid_parameter');
  });

  test('describe exactly the routes that are operations', async () => {
    const operations = new Set<string>();
    const routes = new Set<string>();
    await startApp({
      watch: async (app) => {
        app.addHook('onRoute', ({ method, url, config }) => {
          if (config?.operation) operations.add(url);
          for (const each of [method].flat())
            if (config?.operation || (each === 'OPTIONS' && operations.has(url)))
              routes.add(`${each} ${url.replace(/:(\w+)/g, '{$1}')}`);
        });
      },
    });
    const methodsOf = ({ paths }: Document, prefix: string) =>
      Object.entries(paths).flatMap(([url, item]) =>
        Object.keys(item).map((method) => `${method.toUpperCase()} ${prefix}${url}`),
      );
    const described = documentNames.flatMap((name) => methodsOf(readDocument(name), prefixes[name]));
    expect([...routes].sort()).toEqual(described.sort());
    // The introduction describes the others.
    const listed = documentNames.flatMap((name) => methodsOf(readFile(name), prefixes[name]));
    expect([...routes].filter((route) => !/^(HEAD|OPTIONS) /.test(route)).sort()).toEqual(listed.sort());
  });

  // scripts/compatible.ts compares the rest with the last release.
  test('state what the contract demands, and let later releases add', () => {
    expect(openapi).toMatchObject({
      openapi: '3.1.0',
      info: { version: '1.0.0' },
      servers: ['Production', 'Staging'].map((description) => ({ url: expect.stringMatching(/\/v1$/), description })),
      paths: {
        '/pets': { get: { operationId: 'listPets' }, post: { operationId: 'createPet' } },
        '/pets/{petId}': { get: { operationId: 'getPet', deprecated: true, 'x-deprecated-sunset': '2030-12-05' } },
        '/store/orders': { get: { operationId: 'listOrders', tags: ['Store'], 'x-hideTryItPanel': true } },
      },
    });
    expect(document).not.toContain('x-stability');
    expect(openapi.components.schemas.NewPet).toMatchObject({
      required: ['name', 'categoryId'],
      additionalProperties: false,
      properties: { categoryId: { type: 'integer', format: 'int64' } },
    });
  });
});
