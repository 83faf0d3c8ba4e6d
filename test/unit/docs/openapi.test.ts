/** Tests of the generated OpenAPI documents and of the routes that serve them. */
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { startApp } from '../../support/app.ts';
import { type Document, documentNames, prefixes, readDocument, readFile } from '../../support/described.ts';
import { read } from '../../support/project.ts';

const document = read('openapi.yaml');
const openapi = parse(document);

describe('the OpenAPI documents', () => {
  test('are served as they are committed without a key, with this server as the first', async () => {
    const { get, url } = await startApp({ quickstartBasePath: '/first' });
    // Where it listens: programs that import a document need an absolute address.
    const here = (committed: string) => committed.replaceAll('https://api.example.com/v1/', `${url}/v1/`);
    const { text, headers } = await get('/openapi.yaml?version=1', { key: null });
    expect(headers['content-type']).toBe('application/yaml');
    expect(text.split(`\n  - {"url":"${url}/v1","description":"This server"}`).join('')).toBe(here(document));
    expect(parse(text).servers[0]).toEqual({ url: `${url}/v1`, description: 'This server' });
    const json = await get('/openapi.json', { key: null });
    expect([json.headers['content-type'], json.json]).toEqual(['application/json', parse(text)]);
    const quickstart = (await get('/first/openapi.json', { key: null })).json;
    const [first, ...others] = quickstart.servers;
    expect(first).toEqual({ url: `${url}/first`, description: 'This server' });
    expect({ ...quickstart, servers: others }).toEqual(parse(here(read('openapi.quickstart.yaml'))));
    // Others may reach it at another address, which is not known.
    for (const options of [{ live: true }, { trustProxy: ['127.0.0.1'] }]) {
      const other = await startApp(options);
      expect((await other.get('/openapi.json', { key: null })).json.servers[0].url).toBe('/v1');
    }
  });

  test('are served with the address of this server in their examples, and without links to pages that it lacks', async () => {
    const { get } = await startApp({ baseUrl: 'https://example.com/animals/v1', signUp: 'none' });
    const { info, components } = (await get('/openapi.json', { key: null })).json;
    expect(info.description).toContain("'Authorization: Bearer <API_KEY>' https://example.com/animals/v1/pets\n");
    expect(info.description).not.toContain('](account');
    expect(components.headers.Location.example).toBe('https://example.com/animals/v1/pets/1');
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
      ...{ openapi: '3.1.0', info: { version: '1.0.0' } },
      servers: ['Production', 'Staging'].map((description) => ({ url: expect.stringMatching(/\/v1$/), description })),
      paths: {
        '/pets': { get: { operationId: 'listPets' }, post: { operationId: 'createPet' } },
        '/pets/{petId}': { get: { operationId: 'getPet', deprecated: true, 'x-deprecated-sunset': '2030-12-05' } },
        '/store/orders': { get: { operationId: 'listOrders', tags: ['Store'], 'x-hideTryItPanel': true } },
      },
    });
    expect(document).not.toContain('x-stability');
    expect(openapi.components.schemas.NewPet).toMatchObject({
      ...{ required: ['name', 'categoryId'], additionalProperties: false },
      properties: { categoryId: { type: 'integer', format: 'int64' } },
    });
  });
});
