/** Tests of animal-store copy between SQLite and PostgreSQL, both ways: complete, compared and resumable. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { newToken } from '../../../src/core/people.ts';
import { sqliteFile } from '../../../src/store/open.ts';
import { checkStore } from '../../../src/store/sqlite/check.ts';
import type { Store } from '../../../src/store/store.ts';
import { copyStore } from '../../../src/store/transfer/transfer.ts';
import { change, commandErrorOf, query } from '../../support/commands.ts';
import { launch, launchCli, runCli } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { startProxy } from '../../support/proxy.ts';
import { mountSmallDisk, noDisk } from '../../support/small-disk.ts';
import { clientOf, newDatabase, open, temporaryFolder, textRows } from '../../support/store.ts';

const now = () => new Date();
const examplePet = { name: '\\"{},NULL\u0001é😀', categoryId: -(2n ** 63n), status: 'sold' } as const;

/** A store with some rows in every table, and `animals` more pets. */
async function makeSource(animals: number): Promise<{ from: string; store: Store; hash: Buffer }> {
  const from = `sqlite:${path.join(temporaryFolder(), 'store.db')}`;
  const store = await open(from);
  const { hash } = newSecret(false);
  const secret = { key: '', hash, hint: 'ast_test_abcd' };
  for (const name of ['gone', 'owner "\\', 'last']) await store.accounts.addAccount(name);
  await store.accounts.addKey({ account: 'owner "\\', name: 'k', scopes: [...scopes], lifetimeMs: 9, secret });
  const lastUsedAt = new Date(1_800_000_000_000);
  const lastError = { code: 'pet_not_found', at: lastUsedAt } as const;
  await store.accounts.recordUses([{ id: 1, lastUsedAt, clientErrors: 3, deprecatedCalls: 3, lastError }]);
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
  database.exec('INSERT INTO import VALUES (randomblob(32), 7, 5, 1, NULL)');
  database.close();
  return { from, store, hash };
}

const usage = 'SELECT * FROM api_key_usage';

const command = (from: string, to: string) => ['copy', '--from', from, '--to', to];

/** One report of progress: rows done, rows in total, and rows done in this run. */
type Shown = [number, number, number | undefined];

/** Runs the copy in this process. */
async function copy(from: string, to: string, onShow?: (...shown: Shown) => void) {
  const shown: Shown[] = [];
  const counts = await copyStore(from, to, {
    now,
    watch: (_what, work) =>
      work((done, total, count) => {
        shown.push([done, total, count]);
        onShow?.(done, total, count);
      }),
  });
  return { counts, shown };
}

async function walk(store: Store): Promise<string[]> {
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
    stdout: 'Copied and compared: 4999 animals, 1 account, 1 key, 1 idempotency key, 1 message, 1 import record.\n',
  });
  const copied = await open(to);
  expect(await walk(copied)).toEqual(await walk(store));
  expect(await copied.accounts.listAccounts()).toEqual(await store.accounts.listAccounts());
  expect(await copied.accounts.findKey(hash)).toEqual(await store.accounts.findKey(hash));
  for (const table of ['message', 'idempotency', 'api_key', 'import']) {
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
  expect((await copy(from, to)).counts).toEqual({
    pet: 1,
    account: 1,
    api_key: 0,
    idempotency: 0,
    message: 0,
    import: 0,
    rotated_key: 0,
    form_token: 0,
    api_key_usage: 0,
  });
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
    expect(counts).toEqual({
      ...{
        pet: 100,
        account: 1,
        api_key: 1,
        idempotency: 2,
        message: 1,
        import: 1,
        rotated_key: 0,
        form_token: 0,
        api_key_usage: 1,
      },
    });
    expect(shown).toEqual([...(copied ? [copied] : []), [100, 100, undefined]]);
  }
  const copied = await open(to);
  expect(await walk(copied)).toEqual(await walk(store));
  expect(await copied.accounts.listKeys()).toEqual(await store.accounts.listKeys());
  expect(await textRows(to, usage)).toEqual(await textRows(from, usage));
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
  expect((await copy(from, to)).counts).toEqual({
    pet: 0,
    account: 0,
    api_key: 0,
    idempotency: 0,
    message: 0,
    import: 0,
    rotated_key: 0,
    form_token: 0,
    api_key_usage: 0,
  });
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
  ['from', 'sqlite:'],
  ['from', 'my sqlite:store.db'],
  ['to', 'postgresq://host/a'],
  ['to', 'http://host/postgres://host/a'],
])('an invalid --%s %s ends with exit 2 and an example', async ([option = '', url]) => {
  const urls = { from: 'sqlite:store.db', to: 'postgresql://127.0.0.1:1/a', [option]: url };
  const { code, stdout, stderr } = await runCli(command(urls.from, urls.to));
  const example = 'sqlite: and the path of a file, or postgres://user:password@host:port/database';
  const sentence = `error: option '--${option} <url>' argument '${url}' is invalid. Give ${example}.`;
  expect([code, stdout, stderr.split('\n')[0]]).toEqual([2, '', sentence]);
});

const newFile = () => `sqlite:${path.join(temporaryFolder(), 'new', 'store.db')}`;
const newTarget = async (engine: string) =>
  engine === 'SQLite' ? newFile() : newDatabase({ template: 'template_animals' });

/** A PostgreSQL store with `animals` pets, of which some have been deleted. */
async function makeDatabase(animals: number): Promise<{ from: string; store: Store }> {
  const from = await newDatabase({ template: 'template_animals' });
  const sql = clientOf(from);
  await sql`INSERT INTO pet SELECT i, 'pet ' || i, 9223372036854775807 - i, 'pending' FROM generate_series(1, ${animals}::int) AS i`;
  await sql`DELETE FROM pet WHERE id IN (3, ${animals})`;
  return { from, store: await open(from) };
}

describe('from PostgreSQL', () => {
  test('a round trip over every pair of databases gives identical rows and continues the ids', async () => {
    const { from, store } = await makeSource(2100);
    const names = fc.sample(
      fc.string({ unit: 'binary', minLength: 1 }).filter((text) => text.isWellFormed() && !text.includes('\0')),
      100,
    );
    for (const name of [...names, 'x'.repeat(60_000), '\u2028', "'$1'", '\\x00', 'NULL']) {
      await store.pets.add({ name, categoryId: 2n ** 63n - 1n, status: 'available' });
    }
    await store.accounts.addAccount('ada');
    await store.accounts.removeAccount('ada');
    const tables = ['pet', 'account', 'api_key', 'idempotency', 'message', 'import'];
    const columns = { pet: 'id, name, category_id, status' } as Record<string, string>;
    const rowsOf = (url: string) =>
      Promise.all(tables.map((table) => textRows(url, `SELECT ${columns[table] ?? '*'} FROM ${table} ORDER BY 1`)));
    const hex = (rows: unknown) =>
      JSON.stringify(rows, (_, value) => (value?.type === 'Buffer' ? String(Buffer.from(value.data)) : value));
    const expected = hex(await rowsOf(from));
    let last = from;
    for (const engine of ['PostgreSQL', 'PostgreSQL', 'SQLite', 'SQLite']) {
      const to = await newTarget(engine);
      const { code, stderr } = await runCli(command(last, to));
      expect([code, stderr]).toEqual([0, '']);
      expect(hex(await rowsOf(to))).toBe(expected);
      last = to;
    }
    const copied = await open(last);
    expect(await walk(copied)).toEqual(await walk(store));
    const { id } = (await store.pets.add(examplePet)) as { id: bigint };
    expect(await copied.pets.add(examplePet)).toMatchObject({ id });
    expect(await copied.accounts.addAccount('next')).toMatchObject({ id: 5 });
  }, 60_000);

  test('a copy in a new file is for its owner only, sound, and continues the ids of deleted animals', async () => {
    const { from } = await makeDatabase(2500);
    const to = newFile();
    expect((await copy(from, to)).counts.pet).toBe(2498);
    const file = sqliteFile(to);
    expect([file, path.dirname(file)].map((name) => (fs.statSync(name).mode & 0o777).toString(8))).toEqual([
      '600',
      '700',
    ]);
    expect(fs.readdirSync(path.dirname(file))).toEqual(['store.db']);
    expect(checkStore(file).problems).toEqual([]);
    expect(await (await open(to)).pets.add(examplePet)).toMatchObject({ id: 2501n });
  });

  test('a second run copies what is new, also if the process was killed between two pages', async () => {
    const { from, store } = await makeDatabase(40_000);
    const to = newFile();
    const reached = () => {
      try {
        return Number(query<{ id: number }>(sqliteFile(to), 'SELECT max(id) AS id FROM pet')[0]?.id);
      } catch {
        return 0;
      }
    };
    const running = launchCli(command(from, to));
    await vi.waitUntil(() => reached() > 0, { timeout: 30_000, interval: 2 });
    // The copy waits for this lock until it is killed.
    await clientOf(from).begin(async (transaction) => {
      await transaction`LOCK TABLE pet IN ACCESS EXCLUSIVE MODE`;
      await running.end('SIGKILL');
    });
    const after = reached();
    expect(after).toBeLessThan(40_000);
    await store.pets.add(examplePet);
    const { counts, shown } = await copy(from, to);
    expect(counts.pet).toBe(39_999);
    expect(shown[0]?.[0]).toBe(after + 2000);
    await store.accounts.addAccount('late');
    await store.pets.add(examplePet);
    const again = await copy(from, to);
    expect(again.shown[0]).toEqual([40_002, 40_002, 1]);
    const rows = 'SELECT id, name, category_id, status FROM pet ORDER BY id';
    expect(await textRows(to, rows)).toEqual(await textRows(from, rows));
  }, 60_000);

  test('pets added during a copy are in it or in the next one', async () => {
    const { from, store } = await makeDatabase(6000);
    const to = newFile();
    let adding: Promise<unknown> = Promise.resolve();
    await copy(from, to, () => {
      adding = adding.then(() => store.pets.add(examplePet));
    });
    await adding;
    await copy(from, to);
    const seen = await walk(await open(to));
    expect(seen.length).toBeGreaterThan(6000);
    expect(seen).toEqual(await walk(store));
  });

  test('a file that others have written to is refused, and stays as it is', async () => {
    const { from } = await makeDatabase(10);
    const to = newFile();
    await copy(from, to);
    const store = await open(to);
    await store.pets.add(examplePet);
    const written = `${sqliteFile(to)} was written to after the last copy: a server has run on it.`;
    expect(commandErrorOf(await runCli(command(from, to)))).toBe(written);
    expect(await walk(store)).toHaveLength(9);
    const filled = newFile();
    await (await open(filled)).accounts.addAccount('theirs');
    await expect(copy(from, filled)).rejects.toThrow(`${sqliteFile(filled)} already holds a store.`);
    // A store cannot be copied onto itself.
    await expect(copy(from, from)).rejects.toThrow('already holds a store.');
    expect(await textRows(from, `SELECT to_regclass('copied') AS copied`)).toEqual([{ copied: null }]);
    const other = newFile();
    fs.mkdirSync(path.dirname(sqliteFile(other)));
    change(sqliteFile(other), 'CREATE TABLE theirs (id)');
    await expect(copy(from, other)).rejects.toThrow('is a database of another application.');
  });

  test('a source that cannot be copied is refused, and nothing is created', async () => {
    const to = newFile();
    await expect(copy(await newDatabase(), to)).rejects.toThrow(
      /has schema version 0, .*: run animal-store migrate\.$/,
    );
    await expect(copy('postgres://127.0.0.1:1', to)).rejects.toThrow('the address must be postgres://');
    expect(fs.existsSync(path.dirname(sqliteFile(to)))).toBe(false);
  });

  test('its snapshot is kept however long the other end takes', async () => {
    const { from, store } = await makeDatabase(10);
    const createdAt = now().toISOString();
    await store.messages.add({ id: 'msg_1', accountId: 1, message: 'Hello', status: 'queued', createdAt });
    // Messages are read only in the snapshot.
    await clientOf(from).unsafe(`
      ALTER TABLE message RENAME TO message_row;
      CREATE VIEW message AS SELECT * FROM message_row WHERE current_setting('idle_in_transaction_session_timeout') = '0'`);
    expect((await copy(from, newFile())).counts).toMatchObject({ message: 1 });
  });

  test('a lost connection and a full disk are reported in one sentence, and the same command resumes the copy', async ({
    skip,
  }) => {
    const { from, store } = await makeDatabase(14_000);
    const proxy = await startProxy(from);
    const folder = temporaryFolder();
    const disk = mountSmallDisk(path.join(folder, 'disk'), 900);
    if (!disk) return skip(noDisk);
    const to = `sqlite:${path.join(folder, 'disk', 'store.db')}`;
    const interrupted = `The copy to ${sqliteFile(to)} was interrupted: `;
    await expect(copy(proxy.through(from), to, () => proxy.cutNextAnswer())).rejects.toThrow(interrupted);
    await expect(copy(from, to)).rejects.toThrow(`${interrupted}database or disk is full.`);
    disk.resize(20_000);
    await copy(from, to);
    expect(await walk(await open(to))).toEqual(await walk(store));
  });
});
