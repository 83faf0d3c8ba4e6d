/** Generates the clients of the table in examples/clients with the commands that it names, and runs their programs against a real server. */
import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { temporaryFolder } from '../support/app.ts';
import { findWorking } from '../support/fetched-tool.ts';
import { launch, startServer } from '../support/process.ts';
import { projectFolder } from '../support/project.ts';
import { startProxy } from '../support/proxy.ts';
import { figure } from '../support/tier.ts';

const readme = readFileSync(`${projectFolder}examples/clients/README.md`, 'utf8');
const rows = [...readme.matchAll(/^\| \[([^\]]+)\]\(.+?\).*? \| `((?:npx|mkdir) [^`]+)` \| \[[^\]]+\]\((\S+)\) \|$/gm)];
const commandOf = (generator: string) => rows.find(([, name]) => name === generator)?.[2] as string;

const modules = 'import certifi, dateutil, six, urllib3';
const python = findWorking(['python3', '-c', modules], ['/usr/bin/python3', '-c', modules]);
const ready = python !== undefined && findWorking(['java', '-version']) !== undefined;
if (!ready) figure('skipped: the Python client needs Java and python3-{certifi,dateutil,six,urllib3}');

const strict = {
  target: 'es2024',
  module: 'nodenext',
  lib: ['es2024', 'dom', 'dom.iterable'],
  types: ['node'],
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
};

/** The document and the examples, without what is generated, and the packages of the project. */
function copyExamples(): string {
  const folder = temporaryFolder();
  const filter = (file: string) => !/generated|animal-store\.d\.ts/.test(path.relative(projectFolder, file));
  for (const name of ['openapi.yaml', 'package.json', 'examples'])
    cpSync(projectFolder + name, path.join(folder, name), { recursive: true, filter });
  // Generators read it, too: it decides the endings of imported files.
  writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: strict }));
  symlinkSync(`${projectFolder}node_modules`, path.join(folder, 'node_modules'));
  return folder;
}

/** Runs a command of the table. npx asks nothing. */
function run(command: string, folder: string): void {
  const env = { ...process.env, npm_config_yes: 'true', npm_config_ignore_scripts: 'true' };
  const { status, stdout, stderr } = spawnSync('bash', ['-c', command], { cwd: folder, encoding: 'utf8', env });
  expect(status, stdout + stderr).toBe(0);
}

/** With the settings that copyExamples wrote. */
const compile = (program: string, folder: string) => {
  const config = { extends: './tsconfig.json', files: [program] };
  writeFileSync(path.join(folder, 'tsconfig.program.json'), JSON.stringify(config));
  run('node_modules/.bin/tsc --project tsconfig.program.json', folder);
};

/** Runs the program on a store of 204 animals. The first response to a POST is lost. */
async function runProgram(command: string, file: string): Promise<string> {
  const server = await startServer();
  const key = await server.firstKey();
  const pet = { name: 'Crumb', categoryId: 7 };
  for (let count = 0; count < 204; count += 4)
    await Promise.all([1, 2, 3, 4].map(() => server.call(key, 'POST', '/v1/pets', pet)));
  const proxy = await startProxy(`${server.url}/`);
  proxy.cutNextAnswer();
  const env = { KEY: key, BASE_URL: proxy.through(`${server.url}/v1`) };
  const { code, stdout, stderr } = await launch(command, [file], { env }).end();
  expect([code, stderr]).toEqual([0, '']);
  expect(proxy.seen().match(/POST \/v1\/pets /g)).toHaveLength(2);
  expect(new Set(proxy.seen().match(/(?<=^idempotency-key: ).+/gim)).size).toBe(1);
  const response = await fetch(`${server.url}/v1/pets/205`, { headers: { authorization: `Bearer ${key}` } });
  expect(await response.text()).toBe('{"id":205,"name":"Biscuit","categoryId":9007199254740993,"status":"available"}');
  expect((await server.call(key, 'GET', '/v1/pets/206')).status).toBe(404);
  return stdout;
}

const printed = [
  'Added an animal of category 9007199254740993.',
  'Read 205 animals.',
  'invalid_cursor: cursor must be copied unchanged from the Link header of a list response.\n',
].join('\n');

test('the table names the clients that are tested here', () => {
  expect(rows.map(([, name]) => name)).toEqual([
    'openapi-typescript',
    'hey-api',
    'orval',
    'oazapfts',
    'OpenAPI Generator',
  ]);
});

test('typed.ts compiles unchanged with the types of openapi-typescript, with the flag and without it', async () => {
  const folder = copyExamples();
  const clients = path.join(folder, 'examples/clients');
  run(commandOf('openapi-typescript'), clients);
  const types = readFileSync(path.join(folder, 'examples/animal-store.d.ts'), 'utf8');
  const committed = readFileSync(`${projectFolder}examples/animal-store.d.ts`, 'utf8');
  expect(committed.replace(/^.*\n/, '')).toBe(types);
  compile('examples/typed.ts', folder);
  const lines = (await runProgram(process.execPath, path.join(folder, 'examples/typed.ts'))).split('\n');
  expect([lines[0], lines.length, lines.at(-2)]).toEqual([
    'Added animal 205, which is available.',
    207,
    'Biscuit: 9007199254740993',
  ]);
  run(commandOf('openapi-typescript').replace(/--default-non-nullable false/, ''), clients);
  expect(readFileSync(path.join(folder, 'examples/animal-store.d.ts'), 'utf8')).not.toBe(types);
  compile('examples/typed.ts', folder);
});

describe('the clients of the other generators', () => {
  test.each(['hey-api', 'orval', 'oazapfts'])(
    '%s keeps every digit, reads all pages, retries a create that was lost, and has typed errors',
    async (name) => {
      const folder = copyExamples();
      run(commandOf(name), path.join(folder, 'examples/clients'));
      compile(`examples/clients/${name}.ts`, folder);
      expect(await runProgram(process.execPath, path.join(folder, `examples/clients/${name}.ts`))).toBe(printed);
    },
  );

  test.skipIf(!ready)('OpenAPI Generator makes one in Python that does', async () => {
    const folder = copyExamples();
    run(commandOf('OpenAPI Generator'), path.join(folder, 'examples/clients'));
    const file = path.join(folder, 'examples/clients/openapi_generator.py');
    expect(await runProgram(python as string, file)).toBe(printed);
  });
});

describe('imported as a collection, openapi.yaml is the four requests of the interface', () => {
  const requests = ['GET /pets', 'POST /pets', 'GET /pets/:petId', 'GET /store/orders'];
  /** A folder with an npm package. */
  function install(name: string): string {
    const folder = temporaryFolder();
    run(`npm install --silent --prefix . ${name}`, folder);
    return folder;
  }

  test('in Postman', () => {
    interface Item {
      item?: Item[];
      request: { method: string; url: { path: string[] } };
    }
    const listed = ({ item, request }: Item): string[] =>
      item ? item.flatMap(listed) : [`${request.method} /${request.url.path.join('/')}`];
    const folder = install('openapi-to-postmanv2@6.3.3');
    run(`node_modules/.bin/openapi2postmanv2 -s ${projectFolder}openapi.yaml -o postman.json`, folder);
    expect(listed(JSON.parse(readFileSync(path.join(folder, 'postman.json'), 'utf8')))).toEqual(requests);
  });

  test('in Bruno', async () => {
    interface Item {
      items?: Item[];
      request: { method: string; url: string };
    }
    const listed = ({ items, request }: Item): string[] =>
      items ? items.flatMap(listed) : [`${request.method} ${request.url.replace('{{baseUrl}}', '')}`];
    const folder = install('@usebruno/converters@0.23.0');
    const file = path.join(folder, 'convert.mjs');
    writeFileSync(file, "export { default } from '@usebruno/converters';");
    const { default: converters } = await import(pathToFileURL(file).href);
    const document = parse(readFileSync(`${projectFolder}openapi.yaml`, 'utf8'));
    expect(listed(converters.openApiToBruno(document))).toEqual(requests);
  });
});
