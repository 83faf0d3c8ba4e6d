/** The commands check, export and import on PostgreSQL. */
import fs from 'node:fs';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { commandErrorOf, jsonLines } from '../../support/commands.ts';
import { runCli } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { startProxy } from '../../support/proxy.ts';
import {
  biscuit,
  clientOf,
  newDatabase,
  newStore,
  open,
  runSql,
  temporaryFolder,
  textRows,
} from '../../support/store.ts';

let databaseUrl: string;
let folder: string;

beforeEach(async () => {
  databaseUrl = await newStore();
  folder = temporaryFolder();
});

const at = (name: string) => `${folder}/${name}`;
const runHere = (...args: string[]) => runCli(args, { folder, env: { DATABASE_URL: databaseUrl } });

async function run(...args: string[]) {
  const { code, stdout, stderr } = await runHere(...args);
  expect(code, stderr).toBe(0);
  return stdout;
}

test('an export of a database that hangs: exit 1 and one sentence, and no file remains', async () => {
  await clientOf(databaseUrl)`INSERT INTO pet SELECT i, 'pet', 1, 'sold' FROM generate_series(1, 50000) AS i`;
  const proxy = await startProxy(databaseUrl);
  databaseUrl = proxy.url;
  const exporting = runHere('export', 'pets.jsonl');
  await vi.waitUntil(() => proxy.seen().includes('FROM pet WHERE id >'), { interval: 0, timeout: 20_000 });
  proxy.silence();
  expect(commandErrorOf(await exporting)).toBe('The store cannot answer: the database did not answer in time.');
  expect(fs.readdirSync(folder)).toEqual([]);
});

test('an import whose COMMIT is not answered says so, and adds each line once when it is repeated', async () => {
  const names = Array.from(Array(5000), (_, index) => `pet ${index + 1}`);
  fs.writeFileSync(at('pets.jsonl'), jsonLines(5000));
  const stored = async () => (await textRows(databaseUrl, 'SELECT name FROM pet ORDER BY id')).map(({ name }) => name);
  const proxy = await startProxy(databaseUrl);
  const env = { DATABASE_URL: proxy.url };
  const importing = runCli(['import', 'pets.jsonl'], { folder, env });
  await vi.waitUntil(() => proxy.seen().includes('pet 1500'), { interval: 0, timeout: 20_000 });
  proxy.cutNextAnswer();
  const [, known] = /at least (\d+) animals added/.exec(commandErrorOf(await importing)) ?? [];
  const { length } = await stored();
  expect(length).toBeGreaterThan(Number(known));
  expect(await run('import', 'pets.jsonl')).toBe(`Imported ${5000 - length} animals; already there: ${length}.\n`);
  expect(await stored()).toEqual(names);
});

test('an import says why the database refuses an animal', async () => {
  await clientOf(databaseUrl)`ALTER TABLE pet ADD CONSTRAINT short CHECK (length(name) < 3)`;
  fs.writeFileSync(at('pets.jsonl'), '{"name":"Tabby","categoryId":1}\n');
  expect(commandErrorOf(await runHere('import', 'pets.jsonl'))).toContain(
    'violates check constraint "short"): at least 0',
  );
});

describe('check', () => {
  beforeEach(async () => {
    const store = await open(databaseUrl);
    for (const name of ['zoo', 'shelter']) await store.accounts.addAccount(name);
    for (let time = 0; time < 10; time++) await store.pets.add(biscuit);
  });

  const check = (url: string, ...args: string[]) => runCli(['check', ...args], { env: { DATABASE_URL: url } });

  /** The problem, without the name of the program. */
  async function problemOf(url: string) {
    const { code, stderr } = await check(url);
    expect(code).toBe(1);
    return stderr.replace('animal-store: ', '').trimEnd();
  }

  test('reports a store as a table and as JSON', async () => {
    const { code, stdout, stderr } = await check(databaseUrl);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(
      /^database +postgres:\/\/[^@]+\npostgres version +[\d.]+\b[\s\S]*\nNo problems were found\.\n$/,
    );
    const json = await check(databaseUrl, '--json');
    const version = fs.readdirSync(`${projectFolder}migrations/postgres`).length;
    expect(JSON.parse(json.stdout)).toEqual({
      ok: true,
      database: databaseUrl.replace('app@', ''),
      postgresVersion: expect.stringMatching(/^\d+\.\d+/),
      schemaVersion: version,
      latestSchemaVersion: version,
      rows: { pet: 10 },
      problems: [],
    });
  });

  test('exit 1 and one sentence: no database, one without a store, and animals that cannot be read', async () => {
    // As a row that is older than the column: its animal is made when it is read.
    await runSql(databaseUrl, 'ALTER TABLE pet DISABLE TRIGGER USER; UPDATE pet SET json = NULL WHERE id = 7');
    expect((await check(databaseUrl)).code).toBe(0);
    const broken = `pet_json(id bigint, name text, category_id bigint, status text) RETURNS text LANGUAGE sql IMMUTABLE`;
    await runSql(databaseUrl, `CREATE OR REPLACE FUNCTION ${broken} AS 'SELECT (1 / (id - id))::text'`);
    expect(await problemOf(databaseUrl)).toMatch(/ cannot be read: division by zero\.$/);
    expect(await problemOf(`${databaseUrl}x`)).toMatch(/cannot be opened: .* does not exist\.$/);
    const empty = await newDatabase();
    expect(await problemOf(empty)).toMatch(/has schema version 0, .*: run animal-store migrate\.$/);
    const json = await check(empty, '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: false, schemaVersion: null, rows: {} });
  });
});
