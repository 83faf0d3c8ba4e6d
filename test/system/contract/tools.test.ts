/** Runs tools with their default options against a real server: what happens is in the table of examples/clients. */
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { temporaryFolder } from '../../support/app.ts';
import { findPort } from '../../support/known-port.ts';
import { launch, startServer } from '../../support/process.ts';
import { projectFolder, read } from '../../support/project.ts';

/** What each program in TypeScript does with the functions of its client. `exact`: makes the client keep digits. */
const report = `
const { BASE_URL = '', KEY = '' } = process.env;
export const baseUrl = BASE_URL;
export const headers = { authorization: \`Bearer \${KEY}\` };
type Call = (value: number) => Promise<unknown>;

/** Where the value is, as a JavaScript expression. */
function find(value: unknown, is: (name: string, value: unknown) => boolean, depth = 4): [string, unknown] | undefined {
  if (typeof value !== 'object' || value === null || depth === 0) return undefined;
  for (const [name, child] of Object.entries(value)) if (is(name, child)) return [name, child];
  for (const [name, child] of Object.entries(value)) {
    const [inner, found] = find(child, is, depth - 1) ?? [];
    if (inner) return [\`\${name}.\${inner}\`, found];
  }
  return undefined;
}
const category = (value: unknown) => String(find(value, (name) => name === 'categoryId')?.[1]);
const code = (value: unknown) => find(value, (_name, part) => part === 'invalid_parameter')?.[0] ?? 'json()';

export async function report(list: Call, add: Call, exact: () => void) {
  const listed = category(await list(1));
  await add(9007199254740993);
  const error = await list(0).then((result) => \`returns \\\`\${code(result)}\\\`\`, (thrown: object) =>
    \`throws \${thrown.constructor.name}, \\\`\${code(thrown)}\\\`\`);
  exact();
  console.log(JSON.stringify({ listed, error, exact: category(await list(1)) }));
}
`;
const reviver = `const exactly = (text: string) => JSON.parse(text, ((_name: string, value: unknown, { source }: { source: string }) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(source) : value) as never);`;
const withAxios = `
import axios from 'axios';
import { createPet, listPets } from './client.ts';
${reviver}
Object.assign(axios.defaults, { baseURL: baseUrl, headers });
await report((limit) => listPets({ limit }), (categoryId) => createPet({ name: 'Biscuit', categoryId }),
  () => { axios.defaults.transformResponse = [exactly]; });`;

/** The programs, and how each keeps digits. */
const inTypeScript: Record<string, { program: string; exact: string }> = {
  'openapi-typescript': {
    program: `
import createClient from 'openapi-fetch';
import type { paths } from './client.d.ts';
let client = createClient<paths>({ baseUrl, headers });
await report((limit) => client.GET('/pets', { params: { query: { limit } } }),
  (categoryId) => client.POST('/pets', { body: { name: 'Biscuit', categoryId } }),
  () => { client = createClient<paths>({ baseUrl, headers, fetch: clientFetch }); });`,
    exact: '`createClient({ fetch: clientFetch })`',
  },
  'hey-api': {
    program: `
import { createPet, listPets } from './client/index.ts';
import { client } from './client/client.gen.ts';
client.setConfig({ baseUrl, headers });
await report((limit) => listPets({ query: { limit } }), (categoryId) => createPet({ body: { name: 'Biscuit', categoryId } }),
  () => { client.setConfig({ baseUrl, headers, fetch: clientFetch }); });`,
    exact: '`setConfig({ fetch: clientFetch })`',
  },
  'orval 7': {
    program: withAxios,
    exact: '`axios.defaults.transformResponse = [exactly]`',
  },
  'orval 8': {
    program: withAxios,
    exact: '`axios.defaults.transformResponse = [exactly]`',
  },
  'swagger-typescript-api': {
    program: `
import { Api } from './client/Api.ts';
let api = new Api({ baseUrl, baseApiParams: { headers } });
await report((limit) => api.pets.listPets({ limit }), (categoryId) => api.pets.createPet({ name: 'Biscuit', categoryId }),
  () => { api = new Api({ baseUrl, baseApiParams: { headers }, customFetch: clientFetch }); });`,
    exact: '`new Api({ customFetch: clientFetch })`',
  },
  'OpenAPI Generator, typescript-fetch': {
    program: `
import { Configuration, PetsApi } from './client/index.ts';
const open = (fetchApi = fetch) => new PetsApi(new Configuration({ basePath: baseUrl, headers, fetchApi }));
let api = open();
await report((limit) => api.listPets({ limit }), (categoryId) => api.createPet({ newPet: { name: 'Biscuit', categoryId } }),
  () => { api = open(clientFetch as typeof fetch); });`,
    exact: '`new Configuration({ fetchApi: clientFetch })`',
  },
};

/** Runs a command, which must succeed. */
function run(command: string, cwd: string, env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync('bash', ['-c', `PATH=$PWD/node_modules/.bin:$PATH; ${command}`], {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  expect(status, command + stdout + stderr).toBe(0);
  return stdout;
}

const beyond = '9007199254740993';
const last = (digits: string) => `…${digits.slice(-3)}`;

/** A server with an animal beyond 2^53. */
async function startStore() {
  const server = await startServer();
  const key = await server.firstKey();
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  await fetch(`${server.url}/v1/pets`, { method: 'POST', headers, body: `{"name":"Moth","categoryId":${beyond}}` });
  const sent = async () =>
    /"categoryId":(\d+)/.exec(await (await fetch(`${server.url}/v1/pets/2`, { headers })).text())?.[1] ?? '';
  /** What became of the digits. `listed`: what the client has read. */
  const digits = async (listed: string) => `reads ${last(listed)}, sends ${last(await sent())}`;
  return { env: { BASE_URL: `${server.url}/v1`, KEY: key }, digits };
}

/** The table of examples/clients: what a tool needs, its command, and what happens, by its name. */
const rows = new Map(
  [...read('examples/clients/README.md').matchAll(/^\| ([^|`]+) \| `([^`]+)` \| `([^`]+)` \| (.*) \|$/gm)].map(
    ([, tool = '', packages = '', command = '', cells = '']) => [
      tool,
      { packages, command, cells: cells.split(' | ') },
    ],
  ),
);

/** A folder with the documents and the packages of a tool, and its row. */
function prepare(tool: string) {
  const row = rows.get(tool);
  if (row === undefined) throw new Error(`The table has no row of ${tool}.`);
  const folder = temporaryFolder();
  for (const name of ['openapi.yaml', 'openapi-3.0.json']) cpSync(projectFolder + name, path.join(folder, name));
  writeFileSync(path.join(folder, 'package.json'), '{ "private": true, "type": "module" }');
  run(`npm install --ignore-scripts --no-audit --no-fund ${row.packages}`, folder);
  return { folder, ...row };
}

test.for(Object.entries(inTypeScript))('%s', async ([tool, { program, exact }]) => {
  const { folder, command, cells } = prepare(tool);
  run(command, folder);
  cpSync(`${projectFolder}examples/clients/client-fetch.ts`, `${folder}/client-fetch.ts`);
  writeFileSync(`${folder}/report.ts`, report);
  writeFileSync(
    `${folder}/program.ts`,
    `import { clientFetch } from './client-fetch.ts';\nimport { baseUrl, headers, report } from './report.ts';\n${program}`,
  );
  const options = '--strict --noEmit --target es2024 --module preserve --allowImportingTsExtensions --skipLibCheck';
  const types = `--typeRoots ${projectFolder}node_modules/@types --types node`;
  const found = run(`${projectFolder}node_modules/.bin/tsc ${options} ${types} program.ts || true`, folder);
  const [fault] = /TS\d+: .*?(?=\.?\n)/.exec(found) ?? [];
  run(`${projectFolder}node_modules/.bin/rolldown program.ts --platform node --format esm -o program.mjs`, folder);
  const store = await startStore();
  const said = JSON.parse(run(`${process.execPath} program.mjs`, folder, store.env));
  const digits = `${await store.digits(said.listed)}; reads ${last(said.exact)} with ${exact}`;
  expect([fault ? `no: ${fault}` : 'yes', 'yes', said.error, digits]).toEqual(cells);
});

const inPython = `
import json, os, sys
sys.path.insert(0, "client")
import openapi_client
configuration = openapi_client.Configuration(host=os.environ["BASE_URL"])
configuration.access_token = os.environ["KEY"]
api = openapi_client.PetsApi(openapi_client.ApiClient(configuration))
listed = api.list_pets()[0].category_id
api.create_pet(openapi_client.NewPet(name="Biscuit", category_id=${beyond}))
try:
    # The client checks the limit itself.
    api.list_pets(cursor="x")
except openapi_client.ApiException as error:
    shown = "JSON in \`body\`" if json.loads(error.body)["code"] == "invalid_cursor" else error.body
    print(json.dumps({"listed": str(listed), "error": f"raises {type(error).__name__}, {shown}"}))
`;

test('OpenAPI Generator, python', async () => {
  const { folder, command, cells } = prepare('OpenAPI Generator, python');
  run(command, folder);
  writeFileSync(`${folder}/program.py`, inPython);
  // Debian's, which has the libraries.
  run('/usr/bin/python3 -m compileall -q client', folder);
  const store = await startStore();
  const said = JSON.parse(run('/usr/bin/python3 program.py', folder, store.env));
  expect(['yes', 'yes', said.error, await store.digits(said.listed)]).toEqual(cells);
});

test.each(['go', 'java', 'csharp'])('OpenAPI Generator, %s', (language) => {
  const { folder, command, cells } = prepare(`OpenAPI Generator, ${language}`);
  run(command, folder);
  const hasModels = readdirSync(`${folder}/client`, { recursive: true }).some((name) =>
    /new_?pet\.(go|java|cs)$/i.test(String(name)),
  );
  expect(cells[0]?.startsWith(hasModels ? 'not tried: ' : 'no: it writes no models')).toBe(true);
});

test.each([
  ['Postman', 'openapi-postman.json', '--reporters json --reporter-json-export results.json'],
  ['Bruno', 'openapi-bruno.yml', '--reporter-json ../results.json'],
])('the collection of %s runs', async (tool, file, reporting) => {
  const { folder, command, cells } = prepare(tool);
  const collection = read(file);
  const sending = collection.replace(/(categoryId\W+)7\b/, `$1${beyond}`);
  expect(sending).not.toBe(collection);
  writeFileSync(`${folder}/${file}`, sending);
  // What Bruno does with a file that is imported. Its command line reads the folder.
  const importing = `
    import converters from '@usebruno/converters';
    import collections from './node_modules/@usebruno/cli/src/utils/collection.js';
    const collection = converters.openCollectionToBruno(${JSON.stringify(parse(sending))});
    await collections.createCollectionFromBrunoObject(collection, 'bruno', { format: 'yml' });`;
  writeFileSync(`${folder}/import.js`, importing);
  if (tool === 'Bruno') run(`mkdir bruno; ${process.execPath} import.js`, folder);
  const store = await startStore();
  /** The statuses of the requests, and their bodies as the tool shows them. */
  const send = (key: string) => {
    run(`${command.replace('…', store.env.BASE_URL).replace('…', key)} ${reporting} || true`, folder);
    const text = readFileSync(`${folder}/results.json`, 'utf8');
    const [{ results, run: ran }] = [JSON.parse(text)].flat();
    const responses: { code?: number; status: number; stream?: { data: number[] } }[] = (results ?? ran.executions).map(
      ({ response }: { response: object }) => response,
    );
    return {
      statuses: responses.map(({ code, status }) => code ?? status),
      bodies: results ? text : responses.map(({ stream }) => Buffer.from(stream?.data ?? [])).join(),
    };
  };
  const { statuses, bodies } = send(store.env.KEY);
  expect(statuses).toEqual([200, 201, 200]);
  const digits = await store.digits(/"categoryId": ?(\d+)/.exec(bodies)?.[1] ?? '');
  const refused = send('x');
  expect(refused.statuses).toEqual([401, 401, 401]);
  const error = refused.bodies.includes('invalid_api_key') ? 'status and body' : 'status';
  expect(['', 'yes', error, digits]).toEqual(cells);
});

test('Prism', async () => {
  const { folder, command, cells } = prepare('Prism');
  const port = String(await findPort());
  const args = [`node_modules/.bin/${command.split(' ')[0]}`, ...command.split(' ').slice(1), '--port', port];
  await launch(process.execPath, args, { folder }).seen('stdout', /Prism is listening/);
  const send = async (path: string, body: string | null = null, more = {}) => {
    const headers = { authorization: 'Bearer x', 'content-type': 'application/json', ...more };
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: body ? 'POST' : 'GET', headers, body });
    return `\`${response.status} ${((await response.json()) as { code?: string }).code ?? ''}`.trim().concat('`');
  };
  const pet = (categoryId: string) => JSON.stringify({ name: 'Biscuit', categoryId: 0 }).replace('0', categoryId);
  expect([await send('/pets'), await send('/pets', pet('7')), await send('/pets/1')]).toEqual([
    '`200`',
    '`201`',
    '`200`',
  ]);
  expect(['', 'yes', await send('/pets?limit=0'), await send('/pets', pet(beyond))]).toEqual(cells);
  // What is said below the table.
  expect(await send('/store/orders')).toBe('`400 invalid_parameter`');
  expect(await send('/store/orders', null, { prefer: 'code=501' })).toBe('`501 not_implemented`');
});

test('Insomnia', () => {
  const { folder, command } = prepare('Insomnia');
  run(command, folder);
});
