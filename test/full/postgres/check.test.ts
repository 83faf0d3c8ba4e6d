/** The command check on PostgreSQL, and the commands of docs/scaling.md that look for damage. */
import { readdirSync, readFileSync } from 'node:fs';
import { beforeEach, expect, test } from 'vitest';
import { missingPrograms, startCluster } from '../../support/postgres-programs.ts';
import { runCli } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { newDatabase, open } from '../../support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

let databaseUrl: string;

beforeEach(async () => {
  databaseUrl = await newDatabase({ template: 'template_animals' });
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

test('exit 1 and one sentence: no database, and one without a store', async () => {
  expect(await problemOf(`${databaseUrl}x`)).toMatch(/cannot be opened: .* does not exist\.$/);
  const empty = await newDatabase();
  expect(await problemOf(empty)).toMatch(/has schema version 0, .*: run animal-store migrate\.$/);
  const json = await check(empty, '--json');
  expect(JSON.parse(json.stdout)).toMatchObject({ ok: false, schemaVersion: null, rows: {} });
});

/** The blocks of the section, as shell scripts. */
const [, section = ''] = readFileSync(`${projectFolder}docs/scaling.md`, 'utf8').split('## Check PostgreSQL\n');
const [verifyPages, compareJson] = [...section.matchAll(/^```bash\n([\s\S]*?)^```$/gm)].map(
  ([, script]) => script as string,
);

test('the documented commands find nothing in a sound store, and each kind of damage', { timeout: 60_000 }, async ({
  skip,
}) => {
  if (missingPrograms) skip(missingPrograms);
  const cluster = await startCluster();
  await cluster.shell('createdb animals');
  const url = cluster.url('animals');
  const store = await open(url);
  await Promise.all(Array.from({ length: 1000 }, () => store.pets.add(biscuit)));
  await store.close();
  const run = (script = 'false') => cluster.shell(script.replaceAll('$URL', url));
  expect([await run(verifyPages), await run(compareJson)]).toEqual(['', '']);

  const withoutTrigger = `SET session_replication_role = replica; UPDATE pet SET name = 'other' WHERE id = 7`;
  await run(`psql -qc "${withoutTrigger}" "$URL"`);
  expect(await run(compareJson)).toBe('7\n');

  await run(`file=$(psql -qAtc "CHECKPOINT; SELECT pg_relation_filepath('pet')" "$URL"); pg_ctl stop --wait --mode=fast
    printf D | dd of="$PGDATA/$file" bs=1 seek=8000 conv=notrunc status=none; pg_ctl start --wait --log=$PGDATA/log`);
  await expect(run(verifyPages)).rejects.toThrow(/invalid page in block 0 of relation/);
  expect(await problemOf(url)).toMatch(/ cannot be read: invalid page in block 0 of relation .*\.$/);
});
