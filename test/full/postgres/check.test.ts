/** The command check on PostgreSQL: what it reports, and each kind of damage that it finds. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import postgres from 'postgres';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { openStore } from '../../../src/store/open.ts';
import { startOwn } from '../../support/own-postgres.ts';
import { type Server, start } from '../../support/postgres.ts';
import { missingPrograms, startCluster } from '../../support/postgres-programs.ts';
import { runCli } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, newDatabase, open } from '../../support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

let databaseUrl: string;

beforeEach(async () => {
  databaseUrl = await newDatabase({ template: 'template_animals' });
  const store = await open(databaseUrl);
  for (const name of ['zoo', 'shelter']) await store.accounts.addAccount(name);
  const secret = newSecret(false);
  await store.accounts.addKey({ account: 'zoo', name: 'till', scopes: [...scopes], lifetimeMs: null, secret });
  for (let time = 0; time < 10; time++) await store.pets.add(biscuit);
});

const check = (url = databaseUrl) => runCli(['check'], { env: { DATABASE_URL: url } });

/** The problems, without the name of the program. */
async function problemsOf(url = databaseUrl): Promise<string[]> {
  const { code, stderr } = await check(url);
  expect(code).toBe(1);
  return stderr.replaceAll('animal-store: ', '').trimEnd().split('\n');
}

test('reports a sound store as a table and as JSON', async () => {
  const shown = databaseUrl.replace('app@', '');
  const { code, stdout, stderr } = await check();
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/^WHAT +FOUND\ndatabase +postgres:\/\/[^@]+\nsize +\d+ bytes\nschema version +(\d+) of \1\n/);
  expect(stdout).toMatch(/\ndata checksums +on\namcheck +not available\nrows of account +2\n/);
  expect(stdout).toMatch(new RegExp(`\nrows of pet +10\n[^]*\n${shown} is sound\\.\n$`));
  const json = await runCli(['check', '--json'], { env: { DATABASE_URL: databaseUrl } });
  expect(JSON.parse(json.stdout)).toEqual({
    ok: true,
    database: shown,
    bytes: expect.any(Number),
    postgresVersion: expect.stringMatching(/^\d+\.\d+/),
    schemaVersion: expect.any(Number),
    latestSchemaVersion: expect.any(Number),
    dataChecksums: 'on',
    amcheck: false,
    rows: expect.objectContaining({ pet: 10, account: 2, api_key: 1, pet_id: 1, import: 0, session: 0 }),
    problems: [],
  });
});

test('needs only the right to read, and waits for nobody who writes', async () => {
  const role = `reader_${randomBytes(4).toString('hex')}`;
  const sql = clientOf(databaseUrl);
  await sql.unsafe(`CREATE ROLE ${role} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${role};
    GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO ${role}`);
  await sql.unsafe('CREATE EXTENSION amcheck');
  await sql.begin(async (transaction) => {
    await transaction`SELECT FROM pet_id FOR UPDATE`;
    await transaction`INSERT INTO pet VALUES (11, 'new', 1, 'sold')`;
    const { code, stdout, stderr } = await check(databaseUrl.replace('app@', `${role}@`));
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/amcheck +not available\n[\s\S]*rows of pet +10\n/);
  });
  await sql.unsafe(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
});

test('exit 1 and one sentence: no database, and one without a store', async () => {
  expect(await problemsOf(`${databaseUrl}x`)).toEqual([
    expect.stringMatching(/cannot be opened: .* does not exist\.$/),
  ]);
  const empty = await newDatabase();
  expect(await problemsOf(empty)).toEqual([
    expect.stringMatching(/has schema version 0, .*: run animal-store migrate\.$/),
  ]);
  const json = await runCli(['check', '--json'], { env: { DATABASE_URL: empty } });
  expect(JSON.parse(json.stdout)).toMatchObject({ ok: false, schemaVersion: null, rows: {} });
});

test('exit 1 and one sentence: the connection is lost during the check', async () => {
  const proxy = await startProxy(databaseUrl);
  const through = proxy.through(databaseUrl);
  const checking = problemsOf(through);
  await vi.waitUntil(() => proxy.seen().includes('check_begins'), { interval: 0 });
  proxy.cutNextAnswer();
  const shown = through.replace('app@', '');
  expect(await checking).toEqual([`${shown} cannot be checked to its end: Connection terminated unexpectedly.`]);
});

/** Hides an index from the writes of `statement`, as damage would. */
const without = (index: string, statement: string) => `
  UPDATE pg_index SET indisready = false WHERE indexrelid = '${index}'::regclass;
  ${statement};
  UPDATE pg_index SET indisready = true WHERE indexrelid = '${index}'::regclass`;

const insertPet = `INSERT INTO pet VALUES (11, 'x', 1, 'sold')`;

const faults: [what: string, sql: string, problems: string[]][] = [
  [
    'an index that lacks an entry',
    without('pet_status_id', insertPet),
    ['Index pet_status_id has 10 entries for 11 rows of pet.'],
  ],
  [
    'a name that is there twice',
    without('account_name_key', `INSERT INTO account (name, created_at) VALUES ('zoo', 1)`),
    [
      'The constraint account_name_key of account does not hold for 1 rows.',
      'Index account_name_key has 2 entries for 3 rows of account.',
    ],
  ],
  [
    'a partial index on an expression that lacks an entry',
    without(
      'api_key_active',
      `INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at) VALUES (1, '', '', sha256('a'), '', 1)`,
    ),
    ['Index api_key_active has 1 entries for 2 rows of api_key.'],
  ],
  [
    'a status that does not exist',
    `ALTER TABLE pet DROP CONSTRAINT pet_status_check; UPDATE pet SET status = 'lost' WHERE id < 3;
     ALTER TABLE pet ADD CONSTRAINT pet_status_check CHECK (status IN ('available', 'pending', 'sold')) NOT VALID`,
    ['The constraint pet_status_check of pet does not hold for 2 rows.'],
  ],
  [
    'a key without its account',
    `SET session_replication_role = replica; DELETE FROM account WHERE name = 'zoo'; RESET session_replication_role`,
    ['The constraint api_key_account_id_fkey of api_key does not hold for 1 rows.'],
  ],
  [
    'ids that would be given again',
    `ALTER SEQUENCE account_id_seq RESTART WITH 1; SELECT nextval('account_id_seq'); DELETE FROM pet_id`,
    [
      'pet_id has 0 rows instead of 1, so no animal can be added.',
      'The next id of account follows 1, but 2 is given already.',
    ],
  ],
  [
    'an animal whose JSON is not what its columns hold',
    `SET session_replication_role = replica; UPDATE pet SET name = 'other' WHERE id < 4; RESET session_replication_role`,
    ['Rows of pet whose JSON differs from their columns: id 1, 2, 3.'],
  ],
  [
    'a table that is missing',
    'DROP TABLE message',
    ['Table message cannot be read: relation "message" does not exist.'],
  ],
  [
    'an index that is not valid',
    `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'pet_status_id'::regclass`,
    ['Index pet_status_id is not valid: REINDEX it.'],
  ],
];

test.for(faults)('finds %s', async ([, sql, problems]) => {
  await clientOf(databaseUrl).unsafe(sql);
  expect(await problemsOf()).toEqual(problems);
});

test('with amcheck, names the row that an index lacks', async () => {
  const sql = clientOf(databaseUrl);
  await sql.unsafe('CREATE SCHEMA tools; CREATE EXTENSION amcheck SCHEMA tools');
  const { code, stdout } = await check();
  expect([code, stdout]).toEqual([0, expect.stringMatching(/\namcheck +used\n/)]);
  await sql.unsafe(without('pet_status_id', insertPet));
  expect(await problemsOf()).toContainEqual(
    expect.stringMatching(/^Index pet_status_id does not fit pet: heap tuple .* lacks matching index tuple .*\.$/),
  );
});

describe('damage on disk', () => {
  /** Starts a server of its own with a store of 1,000 animals. `damage` changes the file of a table or an index while the server is stopped. */
  async function withDamage(relation: string, damage: (bytes: Buffer) => void): Promise<string> {
    const server = await startOwn([], () => undefined);
    const url = server.url('postgres');
    const store = await openStore(url, { now: () => new Date() });
    await Promise.all(Array.from({ length: 1000 }, () => store.pets.add(biscuit)));
    await store.close();
    const sql = postgres(url, { max: 1 });
    const [row] = await sql`SELECT pg_relation_filepath(${relation}) AS file`;
    await sql`CHECKPOINT`;
    await sql.end();
    await server.kill();
    const file = path.join(server.data, row?.file);
    const bytes = fs.readFileSync(file);
    damage(bytes);
    fs.writeFileSync(file, bytes);
    const again: Server = await start(server.data);
    onTestFinished(again.kill);
    return again.url('postgres');
  }

  test('finds one changed byte of a table by its checksum, and still checks the other tables', async () => {
    const url = await withDamage('pet', (bytes) => {
      bytes[bytes.lastIndexOf('Biscuit')] = 'D'.charCodeAt(0);
    });
    expect(await problemsOf(url)).toEqual([
      expect.stringMatching(/^Table pet cannot be read: invalid page in block \d+ of relation .*\.$/),
    ]);
    const json = await runCli(['check', '--json'], { env: { DATABASE_URL: url } });
    expect(JSON.parse(json.stdout).rows).toMatchObject({ account: 0, session: 0, pet_id: 1 });
  });

  test('without checksums, says so, and finds a text that is not UTF-8', async ({ skip }) => {
    if (missingPrograms) return skip(missingPrograms);
    const cluster = await startCluster();
    await cluster.shell('pg_ctl stop --wait --mode=fast; pg_checksums --disable');
    await cluster.shell('pg_ctl start --wait --log=$PGDATA/log');
    const url = cluster.url('postgres');
    const store = await openStore(url, { now: () => new Date() });
    await store.pets.add(biscuit);
    await store.close();
    const { stdout } = await runCli(['check'], { env: { DATABASE_URL: url } });
    expect(stdout).toMatch(/\ndata checksums +off\n[\s\S]* is sound\.\n$/);
    const file = await cluster.shell(`psql -qAtc "CHECKPOINT; SELECT pg_relation_filepath('pet')" postgres`);
    await cluster.shell('pg_ctl stop --wait --mode=fast');
    const name = path.join(cluster.data, file.trim());
    const bytes = fs.readFileSync(name);
    bytes[bytes.lastIndexOf('Biscuit')] = 0xff;
    fs.writeFileSync(name, bytes);
    await cluster.shell('pg_ctl start --wait --log=$PGDATA/log');
    expect(await problemsOf(url)).toEqual([
      'Table pet cannot be read: invalid byte sequence for encoding "UTF8": 0xff.',
    ]);
  });

  test('finds a damaged page of an index', async () => {
    const url = await withDamage('pet_status_id', (bytes) => bytes.fill(0xff, 8192 + 4000, 8192 + 4100));
    expect(await problemsOf(url)).toEqual([
      expect.stringMatching(/^Index pet_status_id is damaged: invalid page in block 1 of relation .*\.$/),
    ]);
  });
});
