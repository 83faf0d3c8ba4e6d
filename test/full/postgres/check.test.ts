/** The command check on PostgreSQL. */
import { readdirSync } from 'node:fs';
import { beforeEach, expect, test } from 'vitest';
import { runCli } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { biscuit, newDatabase, newStore, open, runSql } from '../../support/store.ts';

let databaseUrl: string;

beforeEach(async () => {
  databaseUrl = await newStore();
  const store = await open(databaseUrl);
  for (const name of ['zoo', 'shelter']) await store.accounts.addAccount(name);
  for (let time = 0; time < 10; time++) await store.pets.add(biscuit);
});

const check = (url: string, ...args: string[]) => runCli(['check', ...args], { env: { DATABASE_URL: url } });

/** The problem, without the name of the program. */
async function problemOf(url: string): Promise<string> {
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
  const version = readdirSync(`${projectFolder}migrations/postgres`).length;
  expect(JSON.parse(json.stdout)).toEqual({
    ...{ ok: true, database: databaseUrl.replace('app@', ''), postgresVersion: expect.stringMatching(/^\d+\.\d+/) },
    ...{ schemaVersion: version, latestSchemaVersion: version, rows: { pet: 10 }, problems: [] },
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
