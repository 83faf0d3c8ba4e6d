/** Tests of the two roles of docs/operations.md on PostgreSQL: one owns the tables, the other serves with few rights. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { codeOf } from '../../../src/core/errors.ts';
import { limits } from '../../../src/core/limits.ts';
import { newToken } from '../../../src/core/people.ts';
import { latestOf, readMigrations } from '../../../src/store/migrations.ts';
import { howToGrant } from '../../../src/store/postgres/errors.ts';
import type { Store } from '../../../src/store/store.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { startLoad } from '../../support/newest-load.ts';
import { missingPrograms, runPrograms } from '../../support/postgres-programs.ts';
import { launchServer, runCli, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { newDatabase, open, textRows } from '../../support/store.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

const latest = latestOf(readMigrations('postgres'));

const blocks = [
  ...readFileSync(`${projectFolder}docs/operations.md`, 'utf8').matchAll(/^```\w+\n([\s\S]*?)^```$/gm),
].map(([, block]) => block as string);
const blockWith = (text: string) => blocks.find((block) => block.includes(text)) as string;
const [creation, move, granting] = [blockWith('CREATE ROLE'), blockWith('REASSIGN OWNED'), blockWith('grants.sql')];

let administrator: postgres.Sql;
let owner: postgres.Sql;
let server: postgres.Sql;
/** URLs of the database. */
const urls = { owner: '', server: '' };

const migrate = (databaseUrl: string) =>
  runCli(['migrate'], { folder: import.meta.dirname, env: { DATABASE_URL: databaseUrl } });

/** Runs the documented command. */
const grant = (databaseUrl = urls.owner, role = 'animal_store') =>
  runPrograms(granting.replace('role=animal_store', `role=${role}`), { URL: databaseUrl });

const connect = (databaseUrl: string) => postgres(databaseUrl, { max: 1, onnotice: () => undefined });

beforeAll(async () => {
  if (missingPrograms) return;
  const any = await newDatabase();
  administrator = connect(any);
  // psql sends each statement by itself: CREATE DATABASE cannot run in a transaction.
  for (const statement of creation.split(/;\n/).filter(Boolean)) await administrator.unsafe(statement);
  urls.owner = any.replace(/\/\/.*@/, '//animal_store_owner@').replace(/[^/]*$/, 'animals');
  urls.server = urls.owner.replace('_owner', '');
  [owner, server] = [connect(urls.owner), connect(urls.server)];
  expect(grant()).toMatchObject({
    status: 3,
    stderr: expect.stringContaining('there is no store: run animal-store migrate'),
  });
  expect(await migrate(urls.owner)).toMatchObject({ code: 0, stderr: '' });
  await owner.unsafe('GRANT ALL ON ALL TABLES IN SCHEMA public TO animal_store');
  expect(grant()).toMatchObject({ status: 0, stderr: '' });
});

afterAll(async () => {
  if (missingPrograms) return;
  await Promise.all([owner.end(), server.end()]);
  await administrator`DROP DATABASE animals WITH (FORCE)`;
  await administrator`DROP ROLE animal_store`;
  await administrator`DROP ROLE animal_store_owner`;
  await administrator.end();
});

/** The store, and the names of its methods that were not called. */
function watch({ pets, accounts, messages, people, ...rest }: Store): { store: Store; unused: Set<string> } {
  const unused = new Set<string>();
  const watched = <Part extends object>(part: Part) =>
    Object.fromEntries(
      Object.entries(part).map(([name, method]) => {
        if (typeof method !== 'function') return [name, method];
        unused.add(name);
        return [
          name,
          (...args: unknown[]) => {
            unused.delete(name);
            return method(...args);
          },
        ];
      }),
    ) as Part;
  const parts = { pets: watched(pets), accounts: watched(accounts), messages: watched(messages) };
  return { store: { ...rest, ...parts, people: watched(people) }, unused };
}

/** Calls every method of a store. */
async function useEach({ pets, accounts, messages, people, check }: Store): Promise<void> {
  const at = new Date();
  const name = newToken().token;
  await check();
  const retry = { accountId: 1, key: name };
  for (let times = 2; times > 0; times--) await pets.add({ name, categoryId: 7n, status: 'sold' }, retry);
  await pets.list({ limit: 1, after: 0n });
  await pets.list({ limit: 1, after: 0n, status: 'sold' });
  await pets.find(1n);
  await pets.state();
  await messages.add({ id: name, accountId: 1, message: '', status: 'queued', createdAt: at.toISOString() });

  const [link, session] = [newToken().hash, newToken().hash];
  await people.addLink(link, 'invitation', null);
  await people.findLink(link);
  const person = await people.signUp(name, 'first', link);
  if (typeof person === 'string') throw new Error(person);
  await people.findPerson(name);
  await people.addSession(session, person.id, 'first');
  await people.findSession(session);
  await people.touchSession(session);
  await people.endSession(session);
  const another = newToken().hash;
  await people.addSession(another, person.id, 'first');
  await people.endSessions(another);
  await people.addLink(newToken().hash, 'reset', person.id);
  await people.setPassword(person.id, 'second');

  await accounts.addAccount(`${name} of the command line`);
  const key = { account: name, name: 'k', scopes: [...scopes], lifetimeMs: null };
  const added = await accounts.addKey({ ...key, secret: newSecret(true) });
  if (!added) throw new Error('no key');
  await accounts.listKeys();
  await accounts.listOwnKeys(person.id, limits.activeKeys);
  await accounts.findKey(newSecret(true).hash);
  await accounts.recordUses([new Date(0), at].map((lastUsedAt) => ({ id: added.id, lastUsedAt, deprecatedCalls: 1 })));
  await accounts.listUsage(added.id, 1);
  await accounts.listOwnUsage(person.id, 1);
  await accounts.rotateKey(added.id, at, newSecret(true));
  await accounts.revokeKey(added.id);
  await accounts.listAccounts();
  await accounts.removeAccount(name);
}

describe.skipIf(missingPrograms)('the role that serves', () => {
  test('each of the grants is needed', async () => {
    const { store, unused } = watch(await open(urls.server, { migrate: false }));
    await useEach(store);
    expect(unused).toEqual(new Set());
    const given = await owner<{ privilege: string; tablename: string }[]>`
    SELECT privilege_type AS privilege, table_name AS tablename FROM information_schema.role_table_grants
    WHERE grantee = 'animal_store' AND table_name NOT LIKE '%migration' AND table_name NOT IN ('account_event', 'counted_attempt', 'form_token', 'timeline')
    UNION ALL
    SELECT format('%s (%s)', privilege_type, column_name), table_name FROM information_schema.column_privileges
    WHERE grantee = 'animal_store' AND table_name <> 'counted_attempt' AND (table_name, privilege_type) NOT IN (
      SELECT table_name, privilege_type FROM information_schema.role_table_grants WHERE grantee = 'animal_store'
    )`;
    expect(given.length).toBeGreaterThan(20);
    for (const { privilege, tablename } of given) {
      await owner.unsafe(`REVOKE ${privilege} ON ${tablename} FROM animal_store`);
      await expect(useEach(store), `${privilege} ON ${tablename}`).rejects.toMatchObject({
        code: expect.stringMatching(/^(service_unavailable|42501)$/),
      });
      await owner.unsafe(`GRANT ${privilege} ON ${tablename} TO animal_store`);
    }
    await useEach(store);
  }, 60_000);

  test.for([
    ...['DROP TABLE pet', 'ALTER TABLE pet ADD COLUMN later text', 'TRUNCATE pet', 'TRUNCATE idempotency'],
    ...['DELETE FROM pet', "UPDATE pet SET name = 'x'", 'DO $$ BEGIN LOCK TABLE pet; END $$'],
    ...['CREATE TABLE later (id integer)', 'CREATE TEMP TABLE later (id integer)', 'CREATE SCHEMA later'],
    ...[
      'CREATE INDEX later ON pet (name)',
      'DROP FUNCTION keep_last_id CASCADE',
      'ALTER TABLE pet DISABLE TRIGGER ALL',
    ],
    "CREATE OR REPLACE FUNCTION keep_last_id() RETURNS trigger LANGUAGE sql AS ''",
    ...['migration', 'additive_migration'].flatMap((table) => [
      `INSERT INTO ${table} VALUES (99, '', 0)`,
      `UPDATE ${table} SET name = 'x'`,
      `DELETE FROM ${table}`,
      `SELECT FROM ${table} FOR UPDATE`,
    ]),
    ...[
      'SELECT message FROM message',
      'UPDATE message SET message = 1',
      'UPDATE api_key SET hash = hash',
      'UPDATE api_key SET account_id = 1',
      'SELECT FROM import',
      'SELECT FROM attempt',
    ],
    ...["UPDATE account SET name = 'x'", 'DELETE FROM pet_id', 'INSERT INTO pet_id VALUES (9)'],
    'SET ROLE animal_store_owner',
  ])('the server cannot run %s', async (statement) => {
    await expect(server.unsafe(statement)).rejects.toMatchObject({ code: '42501' });
  });

  test('the server can use a table of a later migration at once, and has only its grants after the next run', async () => {
    await owner`CREATE TABLE later (id integer)`;
    onTestFinished(async () => void (await owner`DROP TABLE later`));
    await server`INSERT INTO later VALUES (1)`;
    await server`UPDATE later SET id = 2`;
    expect(await server`DELETE FROM later RETURNING id`).toEqual([{ id: 2 }]);
    await expect(server`TRUNCATE later`).rejects.toMatchObject({ code: '42501' });
    expect(grant().status).toBe(0);
    await expect(server`SELECT FROM later`).rejects.toMatchObject({ code: '42501' });
    await useEach(await open(urls.server, { migrate: false }));
  });

  test.for([
    ['an unknown role', 'owner', 'nobody', 'there is no role nobody: create it first'],
    ['the word for all roles', 'owner', 'public', 'there is no role public: create it first'],
    ['the owner of the tables', 'owner', 'animal_store_owner', 'animal_store_owner owns the tables: name another role'],
    ['another role than the owner', 'server', 'animal_store', 'the tables belong to animal_store_owner: run this as'],
  ] as const)('grants.sql changes nothing for %s', async ([, as, role, sentence]) => {
    const rights = () =>
      textRows(urls.owner, 'SELECT relname, relacl FROM pg_class WHERE relacl IS NOT NULL ORDER BY 1');
    const before = await rights();
    expect(grant(urls[as], role)).toMatchObject({ status: 3, stderr: expect.stringContaining(`ERROR:  ${sentence}`) });
    expect(await rights()).toEqual(before);
  });

  test('without a grant, the server, a command and a request each say how to grant', async () => {
    const env = { DATABASE_URL: urls.server, DEPLOYMENT: 'production', BASE_URL: 'http://127.0.0.1:9/v1' };
    const running = await startServer({ env });
    await runCli(['account', 'add', 'uma'], { env });
    const made = await runCli(['key', 'create', '--account', 'uma', '--name', 'k', '--json'], { env });
    const { key } = JSON.parse(made.stdout);
    const pet = { name: 'Secret', categoryId: 7 };
    await owner`REVOKE INSERT ON pet FROM animal_store`;
    const refused = await running.call(key, 'POST', '/v1/pets', pet);
    expect([refused.status, refused.json.code]).toEqual([503, 'service_unavailable']);
    const [line = ''] = await running.seen('stdout', /^.*permission denied.*$/m);
    expect(JSON.parse(line)).toMatchObject({ reason: `42501: permission denied for table pet: ${howToGrant}` });
    expect(line).not.toContain('Secret');

    await owner`REVOKE SELECT ON pet FROM animal_store`;
    expect(commandErrorOf(await runCli(['export', '-'], { env }))).toBe(
      `The store cannot answer: permission denied for table pet: ${howToGrant}.`,
    );

    await owner`REVOKE SELECT ON migration FROM animal_store`;
    const shown = urls.server.replace('animal_store@', '');
    const sentence = `DATABASE_URL: ${shown} cannot be opened: permission denied for table migration: ${howToGrant}.`;
    const { code, stderr } = await launchServer({ env }).end();
    expect([code, stderr]).toEqual([1, `animal-store: ${sentence}\n`]);
    expect(commandErrorOf(await runCli(['key', 'list'], { env }))).toBe(sentence);

    expect(grant().status).toBe(0);
    expect((await running.call(key, 'POST', '/v1/pets', pet)).status).toBe(201);
  }, 60_000);

  test('the documented move from one role to two fails no request', {
    timeout: patientMs,
  }, async () => {
    const database = await newDatabase();
    const name = path.basename(database);
    // REASSIGN OWNED also moves databases: not those of the other tests.
    const documented = move
      .replaceAll('animal_store', 'mover')
      .replaceAll('animals', name)
      .split(/;\n/)
      .filter(Boolean);
    const back = documented.map((each) =>
      each.startsWith('REASSIGN') ? 'REASSIGN OWNED BY mover_owner TO mover' : each,
    );
    const superuser = connect(database);
    await superuser.unsafe(
      `CREATE ROLE mover LOGIN; CREATE ROLE mover_owner LOGIN; ALTER DATABASE ${name} OWNER TO mover`,
    );
    onTestFinished(async () => {
      await superuser.end();
      await administrator.unsafe(`DROP DATABASE ${name} WITH (FORCE)`);
      await administrator`DROP ROLE mover, mover_owner`;
    });
    const inOneSession = async (statements: string[]) => {
      for (const statement of statements) await superuser.unsafe(statement);
    };
    // As documented: after a deadlock or a time-out it is run again.
    const inOneTransaction = async (statements: string[]): Promise<void> => {
      try {
        await inOneSession(statements);
      } catch (error) {
        if (!['40P01', '57014'].includes(codeOf(error))) throw error;
        await superuser.unsafe('ROLLBACK');
        await inOneTransaction(statements);
      }
    };
    const urlOf = (role: string) => database.replace(/\/\/.*@/, `//${role}@`);
    const env = { DATABASE_URL: urlOf('mover'), OPS_PORT: 'off' };
    const servers = [await startServer({ env }), await startServer({ env })] as const;
    const load = startLoad([...servers], await servers[0].firstKey());
    await sleep(300);
    for (const table of ['pet', 'message']) {
      const dump = connect(database);
      await dump.unsafe(`BEGIN; LOCK TABLE ${table} IN ACCESS SHARE MODE`);
      await expect(inOneSession(documented)).rejects.toMatchObject({ code: '57014' });
      await superuser.unsafe('ROLLBACK');
      await dump.end();
    }
    for (let time = 0; time < tier(3, 30); time++) {
      await sleep(300);
      await inOneTransaction(documented);
      await sleep(300);
      // The second time as a superuser, who changes nothing.
      for (const url of [urlOf('mover_owner'), database]) expect(grant(url, 'mover').status).toBe(0);
      expect(
        await superuser`
        SELECT DISTINCT tableowner, has_table_privilege('mover', 'pet', 'UPDATE') AS "mayChange" FROM pg_tables
        WHERE schemaname = 'public'`,
      ).toEqual([{ tableowner: 'mover_owner', mayChange: false }]);
      await sleep(300);
      await inOneTransaction(back);
    }
    await load.stop();
    const failed = load.replies.filter(({ status }) => status !== 200 && status !== 201);
    figure(`a move to two roles: ${failed.length} of ${load.replies.length} requests failed`);
    expect(failed).toEqual([]);
    expect(load.replies.length).toBeGreaterThan(tier(300, 3000));
  });

  test('on an outdated schema, a role that may not migrate names the command and the role', async () => {
    await owner`DELETE FROM additive_migration WHERE version = ${latest}`;
    onTestFinished(async () => void (await owner`INSERT INTO additive_migration VALUES (${latest}, '', 0)`));
    const { code, stderr } = await launchServer({ env: { DATABASE_URL: urls.server } }).end();
    const shown = urls.server.replace('animal_store@', '');
    const sentence = `has schema version ${latest - 1}, and this release needs ${latest}: run animal-store migrate as the role that owns the tables.`;
    expect([code, stderr]).toEqual([1, `animal-store: DATABASE_URL: ${shown} ${sentence}\n`]);
  });
});
