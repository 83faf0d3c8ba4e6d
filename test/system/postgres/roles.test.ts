/** Tests of the two roles of docs/operations.md on PostgreSQL: one owns the tables, the other serves with few rights. */
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { dayMs, limits } from '../../../src/core/limits.ts';
import { newToken } from '../../../src/core/people.ts';
import { latestOf, readMigrations } from '../../../src/store/migrations.ts';
import { howToGrant } from '../../../src/store/postgres/errors.ts';
import type { Store } from '../../../src/store/store.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { launchServer, runCli, startServer } from '../../support/process.ts';
import { blocksOf, read } from '../../support/project.ts';
import { newDatabase, open } from '../../support/store.ts';
import { missingPrograms, runPrograms } from './postgres-programs.ts';

const latest = latestOf(readMigrations('postgres'));

const blocks = blocksOf(read('docs/operations.md'));
const blockWith = (text: string) => blocks.find((block) => block.includes(text)) as string;
/** psql sends each statement by itself: CREATE DATABASE cannot run in a transaction. */
const statementsOf = (block: string) => block.split(/;\n/).filter(Boolean);

let administrator: postgres.Sql;
let owner: postgres.Sql;
let server: postgres.Sql;
/** URLs of the database. */
const urls = { owner: '', server: '' };

/** Runs the documented command. */
const grant = (role = 'animal_store') =>
  runPrograms(blockWith('grants.sql').replace('role=animal_store', `role=${role}`), { URL: urls.owner });

const connect = (databaseUrl: string) => postgres(databaseUrl, { max: 1, onnotice: () => {} });
const as = (databaseUrl: string, role: string) => databaseUrl.replace(/\/\/.*@/, `//${role}@`);

beforeAll(async () => {
  if (missingPrograms) return;
  const any = await newDatabase();
  administrator = connect(any);
  for (const statement of statementsOf(blockWith('CREATE ROLE'))) await administrator.unsafe(statement);
  urls.owner = as(any, 'animal_store_owner').replace(/[^/]*$/, 'animals');
  urls.server = as(urls.owner, 'animal_store');
  [owner, server] = [connect(urls.owner), connect(urls.server)];
  expect(grant().stderr).toContain('there is no store: run animal-store migrate');
  const migrate = (url: string) => runCli(['migrate'], { folder: import.meta.dirname, env: { DATABASE_URL: url } });
  expect((await migrate(urls.server)).stderr).toContain('permission denied for schema public. Make the role the owner');
  expect(await migrate(urls.owner)).toMatchObject({ code: 0, stderr: '' });
  await owner.unsafe('REVOKE ALL ON SCHEMA public FROM PUBLIC');
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

/** A new key, which a command makes as the role that serves. */
async function makeKey(account: string): Promise<string> {
  const env = { DATABASE_URL: urls.server };
  await runCli(['account', 'add', account], { env });
  const { stdout } = await runCli(['key', 'create', '--account', account, '--name', 'k', '--json'], { env });
  return JSON.parse(stdout).key;
}

/** Calls every method of a store. */
async function useEach({ pets, accounts, messages, people, check }: Store) {
  const at = new Date();
  const name = newToken().token;
  await check();
  const retry = { accountId: 1, key: name };
  for (let times = 2; times > 0; times--) await pets.add({ name, categoryId: 7n, status: 'sold' }, retry);
  await pets.list({ limit: 1, after: 0n });
  await pets.list({ limit: 1, after: 0n, status: 'sold' });
  const { state } = await pets.find(1n);
  await pets.isCurrent(state);
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
  const added = await accounts.addKey({ ...key, secret: newSecret(true), form: newToken().hash });
  if (!added) throw new Error('no key');
  await accounts.listKeys();
  await accounts.keysFrom(1, 1);
  await accounts.listOwnKeys(person.id, limits.activeKeys);
  await accounts.findKey(newSecret(true).hash);
  const errors = Array.from(Array(12), (_, error) => ({ code: '', at, operation: '', requestId: `${error}` }));
  const use = { id: added.id, deprecatedCalls: 1, errors };
  await accounts.recordUses([new Date(0), at].map((lastUsedAt) => ({ ...use, lastUsedAt })));
  await accounts.listUsage(added.id, 1);
  await accounts.listErrors(added.id);
  await people.addSession(session, person.id, 'second');
  await accounts.changeKey(
    added.id,
    { name: 'k', scopes: ['pets:read'], expiresAt: new Date(at.getTime() + dayMs) },
    session,
  );
  await accounts.rotateKey(added.id, at, newSecret(true));
  await accounts.revokeKey(added.id);
  await accounts.listAccounts();
  await accounts.removeAccount(name);
}

describe.skipIf(missingPrograms)('the role that serves', () => {
  test('has the rights for every method', async () => {
    const store = await open(urls.server, { migrate: false });
    const parts = [store.pets, store.accounts, store.messages, store.people] as unknown as Record<string, () => void>[];
    const spies = parts.flatMap((part) =>
      Object.keys(part)
        .filter((name) => typeof part[name] === 'function')
        .map((name) => ({ name, calls: vi.spyOn(part, name).mock.calls })),
    );
    await useEach(store);
    expect(spies.filter(({ calls }) => calls.length === 0)).toEqual([]);
  });

  test.for([
    'DROP TABLE pet',
    'ALTER TABLE pet ADD COLUMN later text',
    'TRUNCATE pet',
    'DELETE FROM pet',
    "UPDATE pet SET name = 'x'",
    'DO $$ BEGIN LOCK TABLE pet; END $$',
    'ALTER TABLE pet DISABLE TRIGGER ALL',
    'CREATE TABLE later (id integer)',
    'CREATE TEMP TABLE later (id integer)',
    'CREATE SCHEMA later',
    "CREATE OR REPLACE FUNCTION keep_last_id() RETURNS trigger LANGUAGE sql AS ''",
    "INSERT INTO migration VALUES (99, '', 0)",
    "UPDATE additive_migration SET name = 'x'",
    'SELECT message FROM message',
    'UPDATE message SET message = 1',
    'UPDATE api_key SET hash = hash',
    'UPDATE api_key SET account_id = 1',
    "UPDATE account SET name = 'x'",
    'SELECT FROM import',
    'DELETE FROM pet_id',
    'SET ROLE animal_store_owner',
  ])('the server cannot run %s', async (statement) => {
    await expect(server.unsafe(statement)).rejects.toMatchObject({ code: '42501' });
  });

  test('the server can use a table of a later migration at once, with its grants after the next run', async () => {
    await owner`CREATE TABLE later (id integer)`;
    onTestFinished(async () => void (await owner`DROP TABLE later`));
    await server`INSERT INTO later VALUES (1)`;
    await server`UPDATE later SET id = 2`;
    expect(await server`DELETE FROM later RETURNING id`).toEqual([{ id: 2 }]);
    expect(grant().status).toBe(0);
    await expect(server`SELECT FROM later`).rejects.toMatchObject({ code: '42501' });
  });

  test('grants.sql finds the tables behind a schema that has come first since', async () => {
    await owner`CREATE SCHEMA animal_store_owner`;
    onTestFinished(async () => void (await owner`DROP SCHEMA animal_store_owner`));
    expect(grant()).toMatchObject({ status: 0 });
  });

  test('grants.sql gives nothing to all roles', () => {
    expect(grant('public')).toMatchObject({ status: 3, stderr: expect.stringContaining('there is no role public') });
  });

  test('without a grant, a request and a command say how to grant', async () => {
    const env = { DATABASE_URL: urls.server };
    const running = await startServer({ env });
    const key = await makeKey('uma');
    await owner`REVOKE INSERT, SELECT ON pet FROM animal_store`;
    const pet = { name: 'Secret', categoryId: 7 };
    const refused = await running.call(key, 'POST', '/v1/pets', pet);
    expect([refused.status, refused.json.code]).toEqual([503, 'service_unavailable']);
    const [line = ''] = await running.seen('stdout', /^.*permission denied.*$/m);
    expect(JSON.parse(line)).toMatchObject({ reason: `42501: permission denied for table pet: ${howToGrant}` });
    expect(line).not.toContain('Secret');
    expect(commandErrorOf(await runCli(['export', '-'], { env }))).toBe(
      `The store cannot answer: permission denied for table pet: ${howToGrant}.`,
    );
    expect(grant().status).toBe(0);
  });

  test('row-level security hides nothing: requests and commands fail, and say what to do', async () => {
    const env = { DATABASE_URL: urls.server };
    const running = await startServer({ env });
    for (const [table, command] of [
      ['pet', ['export', '-']],
      ['api_key', ['key', 'list']],
    ] as const) {
      const key = await makeKey(`owner of ${table}`);
      await owner.unsafe(`ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY`);
      onTestFinished(async () => void (await owner.unsafe(`ALTER TABLE ${table} DISABLE ROW LEVEL SECURITY`)));
      expect((await running.call(key, 'GET', '/v1/pets')).status, table).toBe(503);
      const advice = `"${table}": run ALTER TABLE … DISABLE ROW LEVEL SECURITY`;
      expect(commandErrorOf(await runCli([...command], { env }))).toContain(advice);
    }
  });

  test('on an outdated schema, a role that may not migrate names the command and the role', async () => {
    await owner`DELETE FROM additive_migration WHERE version = ${latest}`;
    onTestFinished(async () => void (await owner`INSERT INTO additive_migration VALUES (${latest}, '', 0)`));
    const { code, stderr } = await launchServer({ env: { DATABASE_URL: urls.server } }).end();
    const sentence = `has schema version ${latest - 1}, and this release needs ${latest}: run animal-store migrate as the role that owns the tables.`;
    expect([code, stderr]).toEqual([1, expect.stringContaining(sentence)]);
  });
});
