/** Tests of animal-store copy from SQLite to PostgreSQL: complete, compared and resumable. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, test, vi } from 'vitest';
import { newSecret, scopes } from '../src/accounts.ts';
import { newToken } from '../src/people.ts';
import { sqliteFile } from '../src/repository/open.ts';
import type { Repository } from '../src/repository/store.ts';
import { copyToPostgres } from '../src/repository/transfer/transfer.ts';
import { commandErrorOf } from './support/commands.ts';
import { launch, launchCli, runCli } from './support/process.ts';
import { projectFolder } from './support/project.ts';
import { startProxy } from './support/proxy.ts';
import { clientOf, newDatabase, open, temporaryFolder, textRows } from './support/store.ts';

const now = () => new Date();
const examplePet = { name: '\\"{},NULL\u0001é😀', categoryId: -(2n ** 63n), status: 'sold' } as const;

/** A store with some rows in every table, and `animals` more pets. */
async function makeSource(animals: number): Promise<{ from: string; store: Repository; hash: Buffer }> {
  const from = `sqlite:${path.join(temporaryFolder(), 'store.db')}`;
  const store = await open(from);
  const { hash } = newSecret(false);
  const secret = { key: '', hash, hint: 'ast_test_abcd' };
  for (const name of ['gone', 'owner "\\', 'last']) await store.accounts.addAccount(name);
  await store.accounts.addKey({ account: 'owner "\\', name: 'k', scopes: [...scopes], lifetimeMs: 9, secret });
  await store.accounts.recordUses([{ id: 1, lastUsedAt: new Date(1_800_000_000_000), deprecatedCalls: 3 }]);
  await store.accounts.removeAccount('gone');
  await store.accounts.removeAccount('last');
  await store.messages.add({
    id: 'msg_1',
    accountId: 1,
    message: 'He said {"NULL"},\\ \n',
    status: 'queued',
    createdAt: now().toISOString(),
  });
  await store.pets.add(examplePet, { accountId: 2, key: 'retry' });
  const database = new Database(sqliteFile(from));
  database
    .prepare(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO pet (name, category_id, status) SELECT 'pet ' || i, 9223372036854775807 - i, 'pending' FROM n`,
    )
    .run(animals);
  database.exec('DELETE FROM pet WHERE id IN (3, (SELECT max(id) FROM pet))');
  database.close();
  return { from, store, hash };
}

const command = (from: string, to: string) => ['copy', '--from', from, '--to', to];

/** One report of progress: rows done, rows in total, and rows done in this run. */
type Shown = [number, number, number | undefined];

/** Runs the copy in this process. */
async function copy(from: string, to: string, onShow?: (...shown: Shown) => void) {
  const shown: Shown[] = [];
  const counts = await copyToPostgres(sqliteFile(from), to, {
    now,
    watch: (_what, work) =>
      work((done, total, count) => {
        shown.push([done, total, count]);
        onShow?.(done, total, count);
      }),
  });
  return { counts, shown };
}

async function walk(store: Repository): Promise<string[]> {
  const all: string[] = [];
  for (let after: bigint | undefined = 0n; after !== undefined; ) {
    const page: { pets: string[]; next: bigint | undefined } = await store.pets.list({ limit: 100, after });
    all.push(...page.pets);
    after = page.next;
  }
  return all;
}

test('a copy holds pets with their ids, accounts, keys, retries and messages, and continues the ids', async () => {
  const { from, store, hash } = await makeSource(5000);
  const to = await newDatabase();
  expect(await runCli(command(from, to))).toMatchObject({
    code: 0,
    stderr: '',
    stdout: 'Copied and compared: 4999 animals, 1 accounts, 1 keys, 1 idempotency keys, 1 messages.\n',
  });
  const copied = await open(to);
  expect(await walk(copied)).toEqual(await walk(store));
  expect(await copied.accounts.listAccounts()).toEqual(await store.accounts.listAccounts());
  expect(await copied.accounts.findKey(hash)).toEqual(await store.accounts.findKey(hash));
  for (const table of ['message', 'idempotency', 'api_key']) {
    expect(await textRows(to, `SELECT * FROM ${table}`)).toHaveLength(1);
  }
  expect(await textRows(to, 'SELECT message FROM message')).toEqual(
    await textRows(from, 'SELECT message FROM message'),
  );
  // New ids follow the highest id ever assigned, including ids of deleted rows.
  expect(await copied.pets.add(examplePet, { accountId: 2, key: 'retry' })).toMatchObject({
    outcome: 'replayed',
    id: 1n,
  });
  expect(await copied.pets.add(examplePet)).toMatchObject({ id: 5002n });
  expect(await copied.accounts.addAccount('next')).toMatchObject({ id: 4 });
}, 60_000);

test('a copy holds passwords, but no sessions, links, attempts or events', async () => {
  const { from, store } = await makeSource(1);
  const { hash } = newToken();
  const passwordHash = '$argon2id$v=19$m=19456,t=2,p=1$YQ$YQ';
  const { id } = (await store.people.signUp('ada', passwordHash)) as { id: number };
  await store.people.addSession(hash, id, passwordHash);
  await store.people.addLink(hash, 'invitation', null);
  await store.people.countAttempt([{ subject: hash, max: 1 }]);
  await store.trail.add({ event: 'account_invited' });
  const to = await newDatabase({ template: 'template_animals' });
  for (const names of [['owner "\\', 'ada'], ['ada']]) {
    expect((await copy(from, to)).counts.account).toBe(names.length);
    const copied = await open(to);
    for (const name of names) expect(await copied.people.findPerson(name)).toEqual(await store.people.findPerson(name));
    expect(await copied.people.findPerson('ada')).toMatchObject({ account: { id, hasPassword: true } });
    const short = ['session', 'one_time_link', 'attempt', 'account_event'];
    for (const table of short) expect(await textRows(to, `SELECT count(*) FROM ${table}`)).toEqual([{ count: '0' }]);
    // The second run copies a changed password.
    await store.people.setPassword(id, '$argon2id$v=19$m=19456,t=2,p=1$Yg$Yg');
    await store.accounts.removeAccount('owner "\\');
  }
});

/** The files of an engine's migrations before the account pages. */
function filesBefore(engine: 'sqlite' | 'postgres', version: string): { name: string; text: string }[] {
  const folder = `${projectFolder}migrations/${engine}/`;
  const names = fs.readdirSync(folder).filter((name) => name < version);
  return names.sort().map((name) => ({ name, text: fs.readFileSync(`${folder}${name}`, 'utf8') }));
}

test('a copy that the release before the account pages began is continued; both stores are migrated first', async () => {
  const from = `sqlite:${path.join(temporaryFolder(), 'store.db')}`;
  const source = new Database(sqliteFile(from));
  for (const { text } of filesBefore('sqlite', '0005')) source.exec(text);
  source.exec(`PRAGMA application_id = ${0x414e4d4c}; PRAGMA user_version = 4;
    INSERT INTO account (name, created_at) VALUES ('owner', 5);
    INSERT INTO pet (name, category_id, status) VALUES ('Biscuit', 7, 'available')`);
  source.close();
  const to = await newDatabase();
  const sql = clientOf(to);
  await sql`CREATE TABLE migration (version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)`;
  for (const { text } of filesBefore('postgres', '0002')) await sql.unsafe(text);
  await sql`INSERT INTO migration VALUES (0, '', 0), (1, '0001_initial.sql', 0)`;
  await sql`INSERT INTO account VALUES (1, 'owner', 5)`;
  // What that release recorded of its copy: digests of the tables account, api_key, idempotency and message.
  const digests = ['["1","owner","5"]\n', '', '', ''].map((rows) => createHash('sha256').update(rows).digest('hex'));
  await sql`CREATE TABLE copied AS SELECT 0::bigint AS last_id, ${digests.join()}::text AS digest`;
  expect((await copy(from, to)).counts).toEqual({ pet: 1, account: 1, api_key: 0, idempotency: 0, message: 0 });
  const copied = await open(to);
  expect(await copied.people.findPerson('owner')).toMatchObject({ account: { id: 1 }, passwordHash: null });
  expect(await copied.accounts.addAccount('next')).toMatchObject({ id: 2 });
});

test('a second run copies new and changed rows, a third copies nothing', async () => {
  const { from, store } = await makeSource(100);
  const to = await newDatabase({ template: 'template_animals' });
  await copy(from, to);
  await store.pets.add(examplePet, { accountId: 2, key: 'other' });
  await store.accounts.revokeKey(1);
  for (const copied of [[102, 102, 1], undefined]) {
    const { counts, shown } = await copy(from, to);
    expect(counts).toEqual({ pet: 100, account: 1, api_key: 1, idempotency: 2, message: 1 });
    expect(shown).toEqual([...(copied ? [copied] : []), [100, 100, undefined]]);
  }
  const copied = await open(to);
  expect(await walk(copied)).toEqual(await walk(store));
  expect(await copied.accounts.listKeys()).toEqual(await store.accounts.listKeys());
});

test('a terminal shows a progress bar', async () => {
  const { from } = await makeSource(5000);
  const to = await newDatabase();
  const line = `node ${projectFolder}src/cli.ts ${command(from, to).join(' ')}`;
  const { code, stdout } = await launch('script', ['-qec', line, '/dev/null'], {}).end();
  expect(stdout).toMatch(/\rCopying [█░]{30} \d+ %, 2000 animals, \d+\/s/);
  expect(stdout).toMatch(/\rComparing [█░]{30} \d+ %, 2000 animals, \d+\/s/);
  expect(code).toBe(0);
}, 60_000);

test('pets added during a copy are in it or in the next one', async () => {
  const { from, store } = await makeSource(5000);
  const to = await newDatabase({ template: 'template_animals' });
  let adding: Promise<unknown> = Promise.resolve();
  const add = () => {
    adding = adding.then(() => store.pets.add(examplePet));
  };
  const { counts } = await copy(from, to, add);
  await adding;
  await copy(from, to);
  expect(counts.pet).toBeGreaterThanOrEqual(4999);
  const copied = await open(to);
  const seen = await walk(copied);
  expect(seen.length).toBeGreaterThan(5000);
  expect(seen).toEqual(await walk(store));
});

test('an empty store can be copied, and the first pet in the copy gets id 1', async () => {
  const from = `sqlite:${path.join(temporaryFolder(), 'store.db')}`;
  await open(from);
  const to = await newDatabase({ template: 'template_animals' });
  expect((await copy(from, to)).counts).toEqual({ pet: 0, account: 0, api_key: 0, idempotency: 0, message: 0 });
  const copied = await open(to);
  expect(await copied.pets.add(examplePet)).toMatchObject({ id: 1n });
  expect(await copied.accounts.addAccount('first')).toMatchObject({ id: 1 });
});

/** SQL that makes the server block when it records an id above `id`. */
const haltBeyond = (id: number) => `
  CREATE OR REPLACE FUNCTION halt() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN IF NEW.last_id > ${id} THEN PERFORM pg_sleep(600); END IF; RETURN NEW; END $$;
  CREATE OR REPLACE TRIGGER halt BEFORE UPDATE ON pet_id FOR EACH ROW EXECUTE FUNCTION halt()`;

test('a copy that is killed in the middle of a page can be resumed, and is complete in the end', async () => {
  const { from, store } = await makeSource(10_000);
  const to = await newDatabase({ template: 'template_animals' });
  const sql = clientOf(to);
  const halted = async () =>
    (
      await sql`SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep' AND state = 'active'`
    )[0]?.pid as number | undefined;
  for (const id of [3000, 7000]) {
    await sql.unsafe(haltBeyond(id));
    const running = launchCli(command(from, to));
    const session = await vi.waitUntil(halted, { timeout: 30_000 });
    await running.end('SIGKILL');
    await sql`SELECT pg_terminate_backend(${session}, 10000)`;
    const [row] = await sql`SELECT max(id) AS reached, (SELECT last_id FROM pet_id) FROM pet`;
    expect(Number(row?.reached)).toBeGreaterThan(id - 2000);
    expect(Number(row?.reached)).toBeLessThanOrEqual(id);
    expect(row?.last_id).toBe(row?.reached);
  }
  await sql`DROP TRIGGER halt ON pet_id`;
  const { counts, shown } = await copy(from, to);
  expect(counts.pet).toBe(9999);
  // Rows that were already copied are not copied again.
  expect(shown[0]?.[0]).toBeGreaterThan(7000);
  const copied = await open(to);
  expect(await walk(copied)).toEqual(await walk(store));
  const { id } = (await store.pets.add(examplePet)) as { id: bigint };
  expect(id).toBe(10_002n);
  expect(await copied.pets.add(examplePet)).toMatchObject({ id });
}, 60_000);

test('a lost connection is reported in one sentence, and the same command resumes the copy', async () => {
  const { from, store } = await makeSource(5000);
  const to = await newDatabase({ template: 'template_animals' });
  const proxy = await startProxy(to);
  const shown = proxy.through(to).replace('app@', '');
  await expect(copy(from, proxy.through(to), () => proxy.cutNextAnswer())).rejects.toThrow(
    `The copy to ${shown} was interrupted: `,
  );
  await copy(from, to);
  expect(await walk(await open(to))).toEqual(await walk(store));
});

test('a copy to a database that others have written to is refused before it changes anything', async () => {
  const { from } = await makeSource(10);
  const to = await newDatabase({ template: 'template_animals' });
  const store = await open(to);
  const shown = to.replace('app@', '');
  const filled = `${shown} already holds a store.`;
  const written = `${shown} was written to after the last copy: a server has run on it.`;
  await store.accounts.addAccount('theirs');
  await expect(copy(from, to)).rejects.toThrow(filled);
  expect(await store.accounts.listAccounts()).toMatchObject([{ name: 'theirs' }]);
  await store.accounts.removeAccount('theirs');
  await copy(from, to);
  await store.accounts.addAccount('theirs');
  await expect(copy(from, to)).rejects.toThrow(written);
  await store.accounts.removeAccount('theirs');
  await store.pets.add(examplePet);
  expect(commandErrorOf(await runCli(command(from, to)))).toBe(written);
});

test.for([
  ['pets', `INSERT INTO pet VALUES (1, 'theirs', 1, 'sold')`],
  ['an assigned id', 'UPDATE pet_id SET last_id = 1'],
  ['an invitation', `INSERT INTO one_time_link VALUES (sha256('a'), 'invitation', NULL, 1)`],
  ['an attempt', `INSERT INTO attempt VALUES (sha256('a'), '{1}', 1)`],
  ['an event', `INSERT INTO account_event (event, at) VALUES ('account_invited', 1)`],
])('a copy is refused even if the database holds only %s', async ([, sql = '']) => {
  const { from } = await makeSource(10);
  const to = await newDatabase({ template: 'template_animals' });
  await clientOf(to).unsafe(sql);
  await expect(copy(from, to)).rejects.toThrow(`${to.replace('app@', '')} already holds a store.`);
  expect(await textRows(to, `SELECT to_regclass('copied') AS copied`)).toEqual([{ copied: null }]);
});

test('a copy is refused if somebody has signed in to the earlier copy, whose session it would end', async () => {
  const { from, store } = await makeSource(10);
  const passwordHash = '$argon2id$v=19$m=19456,t=2,p=1$YQ$YQ';
  const { id } = (await store.people.signUp('ada', passwordHash)) as { id: number };
  const to = await newDatabase({ template: 'template_animals' });
  await copy(from, to);
  const { people } = await open(to);
  const { hash } = newToken();
  await people.addSession(hash, id, passwordHash);
  await expect(copy(from, to)).rejects.toThrow('was written to after the last copy: a server has run on it.');
  expect(await people.findSession(hash)).toBeDefined();
});

test('a row that differs in the copy is reported', async () => {
  const { from } = await makeSource(3000);
  const to = await newDatabase({ template: 'template_animals' });
  await copy(from, to);
  await clientOf(to)`UPDATE pet SET name = 'x' WHERE id = 2000`;
  await expect(copy(from, to)).rejects.toThrow(
    'pet differs in the copy, which holds 2999 rows instead of 2999: do not use it.',
  );
});

test('a copy that cannot start is reported in one sentence', async () => {
  const to = await newDatabase();
  const missing = path.join(temporaryFolder(), 'store.db');
  await expect(copy(`sqlite:${missing}`, to)).rejects.toThrow(`${missing} does not exist.`);
  expect(await textRows(to, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)).toEqual([]);
  const { from } = await makeSource(1);
  await expect(copy(from, 'postgres://host')).rejects.toThrow('the address must be postgres://');
});

test.for([
  ['from', 'postgres://host/a', 'sqlite: and the path of a file'],
  ['from', 'sqlite:', 'sqlite: and the path of a file'],
  ['from', 'my sqlite:store.db', 'sqlite: and the path of a file'],
  ['to', 'sqlite:store.db', 'postgres://user:password@host:port/database'],
  ['to', 'postgresq://host/a', 'postgres://user:password@host:port/database'],
  ['to', 'http://host/postgres://host/a', 'postgres://user:password@host:port/database'],
])('an invalid --%s %s ends with exit 2 and an example', async ([option = '', url, example]) => {
  const urls = { from: 'sqlite:store.db', to: 'postgresql://127.0.0.1:1/a', [option]: url };
  const { code, stdout, stderr } = await runCli(command(urls.from, urls.to));
  const sentence = `error: option '--${option} <url>' argument '${url}' is invalid. Give ${example}.`;
  expect([code, stdout, stderr.split('\n')[0]]).toEqual([2, '', sentence]);
});
