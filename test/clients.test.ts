/** Clients that tools make of openapi.yaml, against a real server; and what would break those that exist. */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from './support/app.ts';
import { launch, startServer } from './support/process.ts';
import { projectFolder } from './support/project.ts';

const names = ['openapi.yaml', 'openapi.quickstart.yaml'];
const read = (name: string) => readFileSync(path.join(projectFolder, name), 'utf8');
const node = (...args: string[]) => launch(process.execPath, args, {}).end();

describe('the typed client of openapi-typescript and openapi-fetch', () => {
  test('is made of this openapi.yaml (npm run client)', () => {
    expect(read('examples/animal-store.d.ts').split('\n')[0]).toContain(hash('sha256', read('openapi.yaml')));
  });

  test('adds and lists, and keeps every digit as the example does', async () => {
    const server = await startServer();
    const env = { KEY: await server.firstKey(), BASE_URL: `${server.url}/v1` };
    const body = '{"name": "Big", "categoryId": 9223372036854775807}';
    const headers = { authorization: `Bearer ${env.KEY}`, 'content-type': 'application/json' };
    expect((await fetch(`${env.BASE_URL}/pets`, { method: 'POST', headers, body })).status).toBe(201);
    const { stdout, stderr } = await launch(process.execPath, [`${projectFolder}examples/typed.ts`], { env }).end();
    expect(stdout, stderr).toBe('Added 2, which is available.\nBig: 9223372036854775807\nBiscuit: 7\n');
  });
});

test('the client of a second generator, oazapfts, adds, lists, fetches and is refused', async () => {
  const server = await startServer();
  const file = path.join(temporaryFolder(), 'client.ts');
  const generator = path.join(projectFolder, 'node_modules/oazapfts/dist/cli.js');
  execFileSync(process.execPath, [generator, path.join(projectFolder, 'openapi.yaml'), file]);
  // Where it lies, its library is not found by name; and the range of statuses 2XX, in a type, is no TypeScript.
  const source = readFileSync(file, 'utf8')
    .replace(/"@oazapfts\/runtime[^"]*"/g, (name) => JSON.stringify(import.meta.resolve(JSON.parse(name))))
    .replaceAll('status: 2XX', 'status: number');
  writeFileSync(file, source);
  const client = await import(file);
  client.defaults.baseUrl = `${server.url}/v1`;
  expect(await client.listPets({})).toMatchObject({ status: 401, data: { code: 'missing_api_key' } });
  client.defaults.headers = { authorization: `Bearer ${await server.firstKey()}` };
  const pet = { id: 1, name: 'Biscuit', categoryId: 7, status: 'available' };
  expect(await client.createPet({ name: 'Biscuit', categoryId: 7 }, {})).toMatchObject({ status: 201, data: pet });
  expect(await client.listPets({ status: 'available', limit: 5 })).toMatchObject({ status: 200, data: [pet] });
  expect(await client.getPet(1)).toMatchObject({ status: 200, data: pet });
  expect(await client.listOrders()).toMatchObject({ status: 501, data: { code: 'not_implemented' } });
});

describe('npm run check, against the last release', () => {
  const compare = (revised: string) =>
    node(`${projectFolder}scripts/compatible.ts`, `${projectFolder}docs/releases/1.0.0`, revised);

  test('it passes itself', async () => {
    expect(await compare(`${projectFolder}docs/releases/1.0.0`)).toMatchObject({ code: 0, stderr: '' });
  });

  test.each([
    ['an operation gone', /^ {4}post:$/m, '    put:'],
    ['a smaller limit', 'maximum: 100', 'maximum: 50'],
    ['a value gone', /^ +- sold\n/m, ''],
    ['a type changed', 'type: integer\n          format: int64', 'type: string'],
  ])('is refused: %s', async (_what, before, after) => {
    const folder = temporaryFolder();
    for (const name of names) writeFileSync(path.join(folder, name), read(`docs/releases/1.0.0/${name}`));
    const broken = read('docs/releases/1.0.0/openapi.yaml').replace(before, after);
    expect(broken).not.toBe(read('docs/releases/1.0.0/openapi.yaml'));
    writeFileSync(path.join(folder, 'openapi.yaml'), broken);
    const { code, stderr } = await compare(folder);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^openapi\.yaml: /);
  });
});
