/** Tests of the two roles of docs/operations.md on PostgreSQL: one owns the tables, the other serves with few rights. */

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { settings } from '../../../src/config.ts';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { codeOf } from '../../../src/core/errors.ts';
import { limits } from '../../../src/core/limits.ts';
import { newToken } from '../../../src/core/people.ts';
import { latestOf, readMigrations } from '../../../src/store/migrations.ts';
import { howToGrant, translated } from '../../../src/store/postgres/errors.ts';
import { createHosts } from '../../../src/store/postgres/hosts.ts';
import { waitForOthers } from '../../../src/store/postgres/lease.ts';
import { readTarget } from '../../../src/store/postgres/url.ts';
import type { Store } from '../../../src/store/store.ts';
import { keyOf, makeKey, password, redirect, rotateKey } from '../../support/account-pages.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { openFormClient } from '../../support/form-client.ts';
import { startLoad } from '../../support/newest-load.ts';
import { launchServer, runCli, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { newDatabase, open, temporaryFolder, textRows } from '../../support/store.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

const latest = latestOf(readMigrations('postgres'));

const blocks = [
  ...readFileSync(`${projectFolder}docs/operations.md`, 'utf8').matchAll(/^```sql\n([\s\S]*?)^```$/gm),
].map(([, block]) => block as string);
const creation = blocks.find((block) => block.includes('CREATE ROLE')) as string;
const move = blocks.find((block) => block.includes('REASSIGN OWNED')) as string;

let administrator: postgres.Sql;
let owner: postgres.Sql;
let server: postgres.Sql;
/** URLs of the database. */
const urls = { owner: '', server: '' };

/** Migrates as the owner, and grants. */
const migrate = (env: Record<string, string> = {}) =>
  runCli(['migrate'], {
    folder: import.meta.dirname,
    env: { DATABASE_URL: urls.owner, DATABASE_SERVER_ROLE: 'animal_store', ...env },
  });

const granted = 'The role animal_store has the rights of a server.';

const connect = (databaseUrl: string) => postgres(databaseUrl, { max: 1, onnotice: () => undefined });

beforeAll(async () => {
  const any = await newDatabase();
  administrator = connect(any);
  // psql sends each statement by itself: CREATE DATABASE cannot run in a transaction.
  for (const statement of creation.split(/;\n/).filter(Boolean)) await administrator.unsafe(statement);
  urls.owner = any.replace(/\/\/.*@/, '//animal_store_owner@').replace(/[^/]*$/, 'animals');
  urls.server = urls.owner.replace('_owner', '');
  [owner, server] = [connect(urls.owner), connect(urls.server)];
  const { code, stdout, stderr } = await migrate();
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(new RegExp(`^Applied 0001_.*\\.\n${granted}\n$`));
});

afterAll(async () => {
  await Promise.all([owner.end(), server.end()]);
  await administrator`DROP DATABASE animals WITH (FORCE)`;
  await administrator`DROP ROLE animal_store`;
  await administrator`DROP ROLE animal_store_owner`;
  await administrator.end();
});

test('with the grants of migrate, the server, the account pages and the commands for accounts and keys work', async () => {
  const env = { DATABASE_URL: urls.server, DEPLOYMENT: 'production', BASE_URL: 'http://127.0.0.1:9/v1' };
  const command = async (...args: string[]) => {
    const { code, stdout, stderr } = await runCli(args, { env });
    expect(code, stderr).toBe(0);
    return stdout;
  };
  const running = await startServer({ env });

  await command('account', 'add', 'till');
  const { key } = JSON.parse(await command('key', 'create', '--account', 'till', '--name', 'k', '--json'));
  const pet = { name: 'Biscuit', categoryId: 7, status: 'sold' };
  const retry = { 'idempotency-key': 'once' };
  const created = await running.call(key, 'POST', '/v1/pets', pet, retry);
  expect([created.status, created.json]).toEqual([201, { id: 1, ...pet }]);
  const again = await running.call(key, 'POST', '/v1/pets', pet, retry);
  expect([again.status, again.json.id, again.headers.get('idempotent-replayed')]).toEqual([201, 1, 'true']);
  expect((await running.call(key, 'POST', '/v1/pets', { ...pet, name: 'Other' }, retry)).status).toBe(422);
  expect((await running.call(key, 'GET', '/v1/pets?status=sold')).json).toEqual([{ id: 1, ...pet }]);
  expect((await running.call(key, 'GET', '/v1/pets/1')).json).toEqual({ id: 1, ...pet });
  expect((await running.call(key, 'POST', '/quickstart/messages', { message: 'Hello' })).status).toBe(202);
  expect((await fetch(`${running.opsUrl()}/readyz`)).status).toBe(200);

  const { pathname: link } = new URL((await command('account', 'invite')).trim());
  const ada = openFormClient(running.url);
  expect((await ada.get(link)).status).toBe(200);
  expect(await ada.post(link, { name: 'ada', password })).toMatchObject(redirect('/account'));
  const own = keyOf(await makeKey(ada));
  expect((await running.call(own, 'GET', '/v1/pets')).status).toBe(200);
  const [{ id }] = JSON.parse(await command('key', 'list', '--account', 'ada', '--json'));
  expect((await rotateKey(ada, id, '1h')).status).toBe(200);
  expect((await ada.post(`/account/keys/${id}/revoke`)).status).toBe(303);
  expect((await ada.post('/account/sign-out')).status).toBe(303);
  expect((await ada.post('/account/sign-in', { name: 'ada', password: 'not this one, but another' })).status).toBe(403);
  expect(await ada.post('/account/sign-in', { name: 'ada', password })).toMatchObject(redirect('/account'));
  const next = 'forty herons walk by the canal';
  expect((await ada.post('/account/password', { name: 'ada', current: password, password: next })).status).toBe(303);
  const reset = new URL((await command('account', 'reset', 'ada')).trim()).pathname;
  expect(await ada.post(reset, { password })).toMatchObject(redirect('/account'));
  expect((await ada.post('/account/sign-out-everywhere')).status).toBe(303);
  expect(await ada.post('/account/sign-in', { name: 'ada', password })).toMatchObject(redirect('/account'));
  expect((await ada.post('/account/delete', { name: 'ada', current: password })).status).toBe(303);

  await command('key', 'rotate', '1', '--overlap', '1m');
  await command('key', 'revoke', '1');
  expect(await command('account', 'list')).toContain('till');
  await command('account', 'remove', 'till', '--force');
  expect(await command('export', '-')).toBe(`${JSON.stringify({ id: 1, ...pet })}\n`);
  expect(await running.seen('stdout', /"event":"account_removed"[^\n]*"at":/)).toBeDefined();
  const { code, stdout, stderr } = await running.end('SIGTERM');
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).not.toMatch(/"level":(50|60)/);
  expect(await textRows(urls.owner, 'SELECT name FROM account UNION ALL SELECT name FROM api_key')).toEqual([]);
}, 60_000);

/** Calls every method of a store that sends statements of its own. */
async function useEach({ pets, accounts, messages, people, trail, check }: Store): Promise<void> {
  const at = new Date();
  const name = newToken().token;
  await check();
  const retry = { accountId: 1, key: name };
  for (let times = 2; times > 0; times--) await pets.add({ name, categoryId: 7n, status: 'sold' }, retry);
  await pets.list({ limit: 1, after: 0n });
  await pets.list({ limit: 1, after: 0n, status: 'sold' });
  await pets.find(1n);
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
  await people.countAttempt([{ subject: session, max: 1 }]);
  await people.countAttempt([{ subject: session, max: 1 }]);
  await people.forgetAttempts([{ subject: session, all: true }]);

  await accounts.addAccount(`${name} of the command line`);
  const key = { account: name, name: 'k', scopes: [...scopes], lifetimeMs: null, form: newToken().hash };
  const added = await accounts.addKey({ ...key, secret: newSecret(true) });
  if (!added) throw new Error('no key');
  await accounts.listKeys();
  await accounts.listOwnKeys(person.id, limits.activeKeys);
  await accounts.findKey(newSecret(true).hash);
  await accounts.recordUses([new Date(0), at].map((lastUsedAt) => ({ id: added.id, lastUsedAt, deprecatedCalls: 1 })));
  await accounts.listUsage(added.id, 1);
  await accounts.rotateKey(added.id, at, newSecret(true));
  await accounts.revokeKey(added.id);
  await accounts.listAccounts();
  await trail.add({ event: 'key_created' });
  await trail.take();
  await accounts.removeAccount(name);
}

test('each of the grants is needed', async () => {
  const store = await open(urls.server, { migrate: false });
  const { sql, destroy } = await createHosts(readTarget(urls.server)).connect(() => undefined);
  onTestFinished(destroy);
  const useAll = () => Promise.all([useEach(store), translated(() => waitForOthers(sql, 1))]);
  await useAll();
  const given = await owner<{ privilege: string; tablename: string }[]>`
    SELECT privilege_type AS privilege, table_name AS tablename FROM information_schema.role_table_grants
    WHERE grantee = 'animal_store' AND table_name NOT LIKE '%migration'
    UNION ALL
    SELECT format('%s (%s)', privilege_type, column_name), table_name FROM information_schema.column_privileges
    WHERE grantee = 'animal_store' AND (table_name, privilege_type) NOT IN (
      SELECT table_name, privilege_type FROM information_schema.role_table_grants WHERE grantee = 'animal_store'
    )`;
  expect(given.length).toBeGreaterThan(20);
  for (const { privilege, tablename } of given) {
    await owner.unsafe(`REVOKE ${privilege} ON ${tablename} FROM animal_store`);
    await expect(useAll(), `${privilege} ON ${tablename}`).rejects.toMatchObject({
      code: expect.stringMatching(/^(service_unavailable|42501)$/),
    });
    await owner.unsafe(`GRANT ${privilege} ON ${tablename} TO animal_store`);
  }
  await useAll();
}, 60_000);

test.for([
  ...['DROP TABLE pet', 'ALTER TABLE pet ADD COLUMN later text', 'TRUNCATE pet', 'TRUNCATE idempotency'],
  ...['DELETE FROM pet', "UPDATE pet SET name = 'x'", 'DO $$ BEGIN LOCK TABLE pet; END $$'],
  ...['CREATE TABLE later (id integer)', 'CREATE TEMP TABLE later (id integer)', 'CREATE SCHEMA later'],
  ...['CREATE INDEX later ON pet (name)', 'DROP FUNCTION keep_last_id CASCADE', 'ALTER TABLE pet DISABLE TRIGGER ALL'],
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
  ],
  ...["UPDATE account SET name = 'x'", 'DELETE FROM pet_id', 'INSERT INTO pet_id VALUES (9)'],
  'SET ROLE animal_store_owner',
])('the server cannot run %s', async (statement) => {
  await expect(server.unsafe(statement)).rejects.toMatchObject({ code: '42501' });
});

test('a command that the server may not run is refused with one sentence', async () => {
  const folder = temporaryFolder();
  writeFileSync(`${folder}/pets.ndjson`, '{"name":"Biscuit","categoryId":7}\n');
  const refused = await runCli(['import', 'pets.ndjson'], { folder, env: { DATABASE_URL: urls.server } });
  expect(commandErrorOf(refused)).toBe(
    'DATABASE_URL: permission denied for table import: use the role that owns the tables.',
  );
});

test('a server or a command without the grants is refused with one sentence that says how to grant', async () => {
  await owner`REVOKE SELECT ON migration FROM animal_store`;
  onTestFinished(async () => void (await owner`GRANT SELECT ON migration TO animal_store`));
  const shown = urls.server.replace('animal_store@', '');
  const sentence = `DATABASE_URL: ${shown} cannot be opened: permission denied for table migration: ${howToGrant}.`;
  const env = { DATABASE_URL: urls.server };
  const { code, stderr } = await launchServer({ env: { ...env, DEPLOYMENT: 'production' } }).end();
  expect([code, stderr]).toEqual([1, `animal-store: ${sentence}\n`]);
  expect(commandErrorOf(await runCli(['key', 'list'], { env }))).toBe(sentence);
});

test('the server can use a table of a later migration at once, and has only its grants after the next run', async () => {
  await owner`CREATE TABLE later (id integer)`;
  onTestFinished(async () => void (await owner`DROP TABLE later`));
  await server`INSERT INTO later VALUES (1)`;
  await server`UPDATE later SET id = 2`;
  expect(await server`DELETE FROM later RETURNING id`).toEqual([{ id: 2 }]);
  await expect(server`TRUNCATE later`).rejects.toMatchObject({ code: '42501' });
  expect(await migrate()).toMatchObject({ code: 0, stdout: `The store is up to date.\n${granted}\n` });
  await expect(server`SELECT FROM later`).rejects.toMatchObject({ code: '42501' });
  await useEach(await open(urls.server, { migrate: false }));
});

describe('migrate changes nothing, and says why,', () => {
  const rights = () => textRows(urls.owner, 'SELECT relname, relacl FROM pg_class WHERE relacl IS NOT NULL ORDER BY 1');

  test.for<[string, Record<string, string>, string]>([
    [
      'if there is no such role',
      { DATABASE_SERVER_ROLE: 'nobody' },
      'has no role nobody, which DATABASE_SERVER_ROLE names: create it first.',
    ],
    [
      'if it is the word for all roles',
      { DATABASE_SERVER_ROLE: 'public' },
      'has no role public, which DATABASE_SERVER_ROLE names: create it first.',
    ],
    [
      'if the role owns the tables',
      { DATABASE_SERVER_ROLE: 'animal_store_owner' },
      'has animal_store_owner as the owner of its tables: DATABASE_SERVER_ROLE must name another role.',
    ],
    [
      'if another role owns the tables',
      { server: 'yes' },
      'cannot be changed: permission denied for table migration: run animal-store migrate as the role that owns the tables.',
    ],
  ])('%s', async ([, { server: asServer, ...env }, sentence]) => {
    const before = await rights();
    const url = asServer ? urls.server : urls.owner;
    const refused = await migrate({ DATABASE_URL: url, ...env });
    expect(commandErrorOf(refused)).toBe(`DATABASE_URL: ${url.replace(/\/\/.*@/, '//')} ${sentence}`);
    expect(await rights()).toEqual(before);
  });

  test('if the name is not one of a role', async () => {
    expect(commandErrorOf(await migrate({ DATABASE_SERVER_ROLE: 'a; DROP TABLE pet' }))).toBe(
      `DATABASE_SERVER_ROLE must be ${settings.properties.DATABASE_SERVER_ROLE.title}.`,
    );
  });
});

test('migrate of an older release leaves the grants of a later one', async () => {
  await owner`INSERT INTO additive_migration VALUES (${latest + 1}, '', 0)`;
  await owner`CREATE TABLE later (id integer)`;
  onTestFinished(async () => {
    await owner`DELETE FROM additive_migration WHERE version = ${latest + 1}`;
    await owner`DROP TABLE later`;
  });
  expect(await migrate()).toMatchObject({ code: 0, stdout: 'The store is up to date.\n' });
  await server`SELECT FROM later`;
});

test('a request that needs a right that the role lacks gets 503, and the log says what to run', async () => {
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
  expect((await migrate()).code).toBe(0);
  expect((await running.call(key, 'POST', '/v1/pets', pet)).status).toBe(201);
}, 60_000);

test('the documented move from one role to two, and each migrate, fail no request', {
  timeout: patientMs,
}, async () => {
  const database = await newDatabase();
  const name = path.basename(database);
  // REASSIGN OWNED also moves databases: not those of the other tests.
  const documented = move.replaceAll('animal_store', 'mover').replaceAll('animals', name).split(/;\n/).filter(Boolean);
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
    const asOwner = { DATABASE_URL: urlOf('mover_owner'), DATABASE_SERVER_ROLE: 'mover' };
    for (const _ of ['narrows the rights', 'changes nothing']) expect((await migrate(asOwner)).code).toBe(0);
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

describe('on an outdated schema, the server of the role without rights', () => {
  test.each([
    ['production', ''],
    ['development', ' as the role that owns the tables'],
  ])('names the command to run: %s', async (deployment, role) => {
    await owner`DELETE FROM additive_migration WHERE version = ${latest}`;
    onTestFinished(async () => void (await owner`INSERT INTO additive_migration VALUES (${latest}, '', 0)`));
    const env = { DATABASE_URL: urls.server, DEPLOYMENT: deployment };
    const { code, stderr } = await launchServer({ env }).end();
    const shown = urls.server.replace('animal_store@', '');
    const sentence = `has schema version ${latest - 1}, and this release needs ${latest}: run animal-store migrate${role}.`;
    expect([code, stderr]).toEqual([1, `animal-store: DATABASE_URL: ${shown} ${sentence}\n`]);
  });
});
