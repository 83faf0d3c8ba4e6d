/** Tests of the SQLite store: its file, reads, writes, errors, migrations, and files that it refuses. */
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { hashKey } from '../../../src/core/accounts.ts';
import { type PetStatus, statuses } from '../../../src/core/pets.ts';
import { openStore, sqliteFile } from '../../../src/store/open.ts';
import { prepareCommands, type Write } from '../../../src/store/sqlite/commands.ts';
import { createRunner, openConnection, openReader, translate } from '../../../src/store/sqlite/connection.ts';
import { restoreStore } from '../../../src/store/sqlite/restore.ts';
import { openExisting, prepareStore } from '../../../src/store/sqlite/store-file.ts';
import { raw, sql } from '../../../src/store/steps.ts';
import { OpenError, type OpenOptions, type Store } from '../../../src/store/store.ts';
import { startApp, temporaryFolder } from '../../support/app.ts';
import { change } from '../../support/commands.ts';
import { biscuit, open } from '../../support/store.ts';
import { addAccount, addKey } from '../../support/store-file.ts';

const now = () => new Date();
const unavailable = { code: 'service_unavailable' };

afterEach(() => {
  vi.restoreAllMocks();
});

const newFile = () => `${temporaryFolder()}/store.db`;

/** Makes a store without a server. */
function makeStore(file = newFile()) {
  prepareStore(file, { now });
  return file;
}

const insertPet = "INSERT INTO pet (name, category_id, status) VALUES ('x', 1, 'sold')";

/** Adds pets in one turn of the event loop. */
const addMany = ({ pets }: Store, count: number, name = 'Biscuit') =>
  Promise.all(Array.from(Array(count), () => pets.add({ ...biscuit, name })));

async function openSqlite(options: Partial<OpenOptions> = {}, file = newFile()) {
  return { store: await open(`sqlite:${file}`, options), file };
}

/** Opens a second connection to the file, as another program would. */
function openOther(file: string): Database.Database {
  const other = new Database(file);
  onTestFinished(() => void other.close());
  return other;
}

/** A store with one pet and one key. The first page of `table` in its file is overwritten. */
async function openDamaged(table: 'pet' | 'pet_revision' | 'message') {
  const { store, file } = await openSqlite();
  const key = await addAccount(store, 'owner');
  await store.pets.add(biscuit);
  await store.close();
  const other = new Database(file, { readonly: true });
  const page = other.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').pluck().get(table) as number;
  const size = pragma(other, 'page_size') as number;
  other.close();
  fs.writeFileSync(file, fs.readFileSync(file).fill(0xff, (page - 1) * size, page * size));
  return { ...(await openSqlite({}, file)), key };
}

const pragma = (connection: Database.Database, name: string) => connection.pragma(name, { simple: true });

describe('the file', () => {
  test('has the application id, the schema version of the oldest release that can open it, and only strict tables', async () => {
    const { file } = await openSqlite();
    const other = openOther(file);
    expect(['application_id', 'user_version', 'journal_mode'].map((name) => pragma(other, name))).toEqual([
      0x414e4d4c,
      3,
      'wal',
    ]);
    const tables = other.pragma('table_list') as { name: string; strict: number }[];
    expect(tables.filter(({ name, strict }) => strict !== 1 && !name.startsWith('sqlite_'))).toEqual([]);
  });

  test('is written with synchronous=FULL, even after a write, when better-sqlite3 falls back to NORMAL', () => {
    const file = makeStore();
    const connection = openConnection(file);
    const expectSettings = () => {
      const names = ['synchronous', 'fullfsync', 'checkpoint_fullfsync', 'foreign_keys', 'trusted_schema'];
      expect([...names, 'busy_timeout'].map((name) => Number(pragma(connection, name)))).toEqual([2, 1, 1, 1, 0, 5000]);
    };
    expectSettings();
    connection.exec(insertPet);
    connection.transaction(() => connection.exec(`UPDATE pet SET status = 'pending'`)).immediate();
    expectSettings();
    connection.close();
    const reader = openReader(file);
    expect(['foreign_keys', 'trusted_schema'].map((name) => Number(pragma(reader, name)))).toEqual([1, 0]);
    expect(() => reader.exec('DELETE FROM pet')).toThrow('readonly');
    reader.close();
  });

  test('holds no key, only its hash and its first characters', async () => {
    const { store, file } = await openSqlite();
    const key = await addAccount(store, 'owner');
    const [row] = openOther(file).prepare('SELECT hash, hint FROM api_key').all();
    expect(row).toEqual({ hash: hashKey(key), hint: key.slice(0, 13) });
    const folder = path.dirname(file);
    for (const name of fs.readdirSync(folder))
      expect(fs.readFileSync(`${folder}/${name}`).includes(key.slice(0, 20))).toBe(false);
  });
});

describe('reading', () => {
  test.each(['pet', 'pet_revision'] as const)('a damaged table gets 503 service_unavailable: %s', async (table) => {
    const { pets } = (await openDamaged(table)).store;
    const refused = { ...unavailable, cause: { code: 'SQLITE_CORRUPT' } };
    await expect(pets.find(1n)).rejects.toMatchObject(refused);
    if (table === 'pet') await expect(pets.list({ limit: 20, after: 0n })).rejects.toMatchObject(refused);
  });
});

test('what is current is what is stored, whenever another process commits', async () => {
  const { store, file } = await openSqlite();
  await store.pets.add(biscuit);
  const worker = new Worker(
    `const { workerData, parentPort } = require('node:worker_threads');
     const Database = require('better-sqlite3');
     const connection = new Database(workerData);
     connection.pragma('synchronous = OFF');
     const update = connection.prepare("UPDATE pet SET name = ?");
     for (let count = 0; count < 5000; count++) update.run(String(count));
     parentPort.postMessage('done');`,
    { eval: true, workerData: file },
  );
  let isDone = false;
  const done = once(worker, 'message').then(() => {
    isDone = true;
  });
  const stored = openOther(file).prepare('SELECT json FROM pet').pluck();
  while (!isDone) {
    for (let times = 0; times < 50; times++) {
      const { pet, state } = await store.pets.find(1n);
      const now = stored.get();
      if (await store.pets.isCurrent(state)) expect(pet).toBe(now);
    }
    await setImmediate();
  }
  await done;
});

test('a text that varies runs as it is, and integers beyond 2^53 are exact', () => {
  const connection = openConnection(makeStore());
  onTestFinished(() => void connection.close());
  const run = createRunner(connection);
  const select = (text: string, value: bigint | number) => run(sql`SELECT ${raw(text)} AS a, ${value} AS b`);
  expect(select('1', 2n ** 53n)).toEqual([{ a: 1, b: 2n ** 53n }]);
  expect(select("'x'", 2n ** 53n - 1n)).toEqual([{ a: 'x', b: 2 ** 53 - 1 }]);
  expect(run(sql`SELECT CAST(-9223372036854775808 AS INTEGER) AS a`)).toEqual([{ a: -(2n ** 63n) }]);
});

describe('writing', () => {
  test('a write is acknowledged only after its commit, which other connections then see', async () => {
    const { store, file } = await openSqlite();
    const count = openOther(file).prepare('SELECT count(*) FROM pet').pluck();
    const seen: unknown[] = [];
    const adding = Array.from(Array(20), () => store.pets.add(biscuit).then(() => seen.push(count.get())));
    expect(count.get()).toBe(0);
    await Promise.resolve();
    expect([count.get(), seen]).toEqual([0, []]);
    await Promise.all(adding);
    expect(seen).toEqual(Array(20).fill(20));
    // Also one that is accepted just before the store closes.
    const last = store.pets.add(biscuit);
    await store.close();
    expect(await last).toMatchObject({ outcome: 'added', id: 21n });
    expect(count.get()).toBe(21);
  });

  test('each pet of a batch gets the id that is answered, with its exact row', async () => {
    const { store, file } = await openSqlite();
    await addAccount(store, 'owner');
    const names = ['"\\\n\u0001\u2028', 'é😀', '[1]', '{"name":"a"}', 'null'];
    const petAt = (index: number) => ({
      name: `${names[index % names.length]}${index % 11 === 0 ? '' : index}`,
      categoryId: index % 2 ? -(2n ** 63n) + BigInt(index) : 2n ** 53n + 1n,
      status: statuses[index % 3] as PetStatus,
    });
    const adding = Array.from(Array(700), (_, index) => {
      if (index === 500) void store.accounts.revokeKey(1);
      // Another animal under the key of an earlier one.
      if (index === 600) return store.pets.add(biscuit, { accountId: 1, key: '57' });
      return index % 50 === 7
        ? store.pets.add(petAt(index % 100), { accountId: 1, key: `${index % 100}` })
        : store.pets.add(petAt(index), undefined, index % 40 === 3 ? 1 : undefined);
    });
    const outcomes = await Promise.all(adding);
    const added = outcomes.flatMap((addition, index) => {
      if (addition.outcome !== 'added') return [];
      const { name, categoryId, status } = petAt(index);
      return { id: addition.id, json: addition.pet, name, category_id: categoryId, status };
    });
    const rows = openOther(file).prepare('SELECT id, json, name, category_id, status FROM pet').safeIntegers().all();
    expect(rows).toEqual(added);
    expect(added.map(({ id }) => id)).toEqual(added.map((_, index) => BigInt(index + 1)));
    const counts = Object.groupBy(outcomes, ({ outcome }) => outcome);
    expect(Object.values(counts).map((each) => each?.length)).toEqual([682, 12, 5, 1]);
  });

  test('each pet of a batch is added if its key was valid at its own time', async () => {
    let time = 1000;
    const { store } = await openSqlite({ now: () => new Date(time) });
    await store.accounts.addAccount('owner');
    for (const lifetimeMs of [1000, null]) await addKey(store.accounts, 'owner', lifetimeMs);
    const outcomes = [1998, 2001, 1999, 2000, 1990, 2002].map((at) => {
      time = at;
      const add = (keyId: number) => store.pets.add(biscuit, undefined, keyId);
      return Promise.all([add(1), add(2)]);
    });
    const [valid, expired] = ['added', 'expired_api_key'];
    expect((await Promise.all(outcomes)).flat().map(({ outcome }) => outcome)).toEqual(
      [valid, expired, valid, expired, valid, expired].flatMap((outcome) => [outcome, valid]),
    );
  });

  test('an id is never reused and above all others, whatever another program does to the rows', async () => {
    const { store, file } = await openSqlite();
    const add = async ({ pets } = store) => (await pets.add(biscuit)) as { id: bigint };
    for (let i = 0; i < 3; i++) await add();
    openOther(file).exec('DELETE FROM pet WHERE id > 1');
    expect(await add()).toMatchObject({ id: 4n });
    await store.close();
    const { store: reopened } = await openSqlite({}, file);
    openOther(file).exec('DELETE FROM pet WHERE id > 1');
    expect(await add(reopened)).toMatchObject({ id: 5n });
    openOther(file).exec('UPDATE pet SET id = 50 WHERE id = 1');
    expect(await add(reopened)).toMatchObject({ id: 51n });
  });

  test('a failed write gets 503 service_unavailable, with its cause in the log; others continue', async () => {
    const { store, key } = await openDamaged('message');
    const { call, get, logged } = await startApp({ store });
    const answer = await call('POST', '/quickstart/messages', { key, body: { message: 'Hello' } });
    expect([answer.json.code, answer.headers['retry-after']]).toEqual(['service_unavailable', '1']);
    const line = logged(`"${answer.headers['x-request-id']}"`).find(({ level }) => level === 50);
    expect(JSON.stringify(line)).toContain('SQLITE_CORRUPT');
    expect((await call('POST', '/v1/pets', { key, body: { name: 'after', categoryId: 1 } })).status).toBe(201);
    expect((await get('/v1/pets', { key })).json).toMatchObject([{ name: 'Biscuit' }, { name: 'after' }]);
  });

  test('each write of a batch sees those before it: a key that ends in between adds nothing more', async () => {
    const { store, file } = await openSqlite();
    await addAccount(store, 'owner');
    const connection = openConnection(file);
    onTestFinished(() => void connection.close());
    const run = prepareCommands(connection);
    const at = Date.now();
    const add = (at: number, keyId: number) => ['addPet', { ...biscuit, categoryId: '7', keyId, at }] as const;
    const batch = [add(at, 1), ['revokeKey', { id: 1, at }], add(at, 1)] as unknown as Write[];
    expect(run(batch)).toMatchObject([1, { id: 1 }, { outcome: 'revoked_api_key' }]);
    // Not known from the last transaction: another process may have changed it.
    openOther(file).exec(`UPDATE api_key SET revoked_at = NULL, expires_at = ${at + 1}`);
    expect(run([add(at, 1), add(at + 1, 1)] as unknown as Write[])).toEqual([2, { outcome: 'expired_api_key' }]);
  });

  test('if one write of a batch fails, none of them is stored or acknowledged', async () => {
    const { store } = await openDamaged('message');
    const message = { id: 'msg_1', accountId: 1, message: 'Hello', status: 'queued', createdAt: now().toISOString() };
    const outcomes = await Promise.allSettled([store.pets.add(biscuit), store.messages.add(message)]);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(await store.pets.add(biscuit)).toMatchObject({ id: 2n });
  });

  test('an addition that finds no id fails alone: the others of its batch are stored', async () => {
    const { store, file } = await openSqlite();
    openOther(file).exec("INSERT INTO pet (id, name, category_id, status) VALUES (9007199254740991, 'x', 1, 'sold')");
    const [first, pet, second] = await Promise.allSettled([
      store.accounts.addAccount('first'),
      store.pets.add(biscuit),
      store.accounts.addAccount('second'),
    ]);
    expect([first, second]).toMatchObject([{ value: { name: 'first' } }, { value: { name: 'second' } }]);
    expect(pet).toMatchObject({ status: 'rejected', reason: unavailable });
    expect(store.measure().failedWrites).toMatchObject({ other: 1 });
  });
});

test('a file that is removed or replaced while it is open takes no write, and no requests by readiness, until it is back', async () => {
  const { store, file } = await openSqlite();
  expect(await store.pets.add(biscuit)).toMatchObject({ id: 1n });
  fs.renameSync(file, `${file}.moved`);
  for (const replace of [() => {}, () => fs.writeFileSync(file, '')]) {
    replace();
    for (const added of await Promise.allSettled([store.pets.add(biscuit), store.pets.add(biscuit)]))
      expect(added).toMatchObject({ status: 'rejected', reason: unavailable });
    await expect(store.check()).rejects.toThrow('removed or replaced');
  }
  fs.renameSync(`${file}.moved`, file);
  // Other processes would make new ones, and the server would not see what they write.
  for (const end of ['-wal', '-shm']) {
    fs.renameSync(file + end, `${file}.moved`);
    await expect(store.pets.add(biscuit)).rejects.toMatchObject(unavailable);
    await expect(store.check(), end).rejects.toThrow('removed or replaced');
    fs.renameSync(`${file}.moved`, file + end);
  }
  await store.check();
  expect(await store.pets.add(biscuit)).toMatchObject({ id: 2n });
  // The system does not tell: a loop of links.
  fs.renameSync(file, `${file}.moved`);
  fs.symlinkSync(file, file);
  expect(await addMany(store, 2)).toMatchObject([{ id: 3n }, { id: 4n }]);
  fs.rmSync(file);
  fs.renameSync(`${file}.moved`, file);
});

test('a link that leads to another file takes no write: after a restart, what it leads to is the store', async () => {
  const [folder, next] = [temporaryFolder(), newFile()];
  fs.symlinkSync(newFile(), `${folder}/store.db`);
  const { store } = await openSqlite({}, `${folder}/store.db`);
  expect(await store.pets.add(biscuit)).toMatchObject({ id: 1n });
  fs.writeFileSync(next, '');
  fs.rmSync(`${folder}/store.db`);
  fs.symlinkSync(next, `${folder}/store.db`);
  await expect(store.pets.add(biscuit)).rejects.toMatchObject(unavailable);
  await expect(store.check()).rejects.toThrow('removed or replaced');
});

test('what was read is no longer current after a restore into the open file', async () => {
  const { store, file } = await openSqlite();
  await store.pets.add(biscuit);
  const other = openOther(file);
  const copy = newFile();
  await other.backup(copy);
  await store.pets.add(biscuit);
  const { state } = await store.pets.find(1n);
  expect(await store.pets.isCurrent(state)).toBe(true);
  await openOther(copy).backup(file);
  await store.pets.add(biscuit);
  expect(await store.pets.isCurrent(state)).toBe(false);
});

test('a store with two names is warned of: SQLite keeps a log for each, and each would give the same ids', async () => {
  const { store, file } = await openSqlite();
  await store.close();
  fs.linkSync(file, `${file}.other`);
  const logger = { warn: vi.fn(), error: vi.fn() };
  await openSqlite({ logger }, file);
  expect(logger.warn.mock.calls).toEqual([[expect.stringContaining('has 2 names')]]);
});

test('what a long reader has made the WAL grow to is given back', async () => {
  const { store, file } = await openSqlite();
  const walBytes = () => fs.statSync(`${file}-wal`).size;
  const add = () => addMany(store, 1000, '🦊'.repeat(1000));
  const reader = openOther(file);
  reader.exec('BEGIN; SELECT * FROM pet');
  for (let batches = 0; batches < 5; batches++) await add();
  expect(walBytes()).toBeGreaterThan(17_000_000);
  reader.exec('COMMIT');
  for (let batches = 0; batches < 3; batches++) await add();
  expect(walBytes()).toBeLessThan(17_000_000);
});

test('the use of many keys does not make the WAL large', async () => {
  const { store, file } = await openSqlite();
  openOther(file).exec(`
    INSERT INTO account (id, name, created_at) VALUES (1, 'zoo', 0);
    WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
    INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at) SELECT 1, 'k', 'h', randomblob(32), 'pets:read', 0 FROM n`);
  const use = { lastUsedAt: now(), succeeded: 1, deprecatedCalls: 0 };
  for (let first = 1; first <= 100; first++)
    for (let times = 0; times < 3; times++) {
      const uses = Array.from(Array(10), (_, at) => ({ ...use, id: first + 100 * at }));
      await store.accounts.recordUses(uses);
    }
  expect(fs.statSync(`${file}-wal`).size).toBeLessThan(4_000_000);
});

describe('an SQLite error', () => {
  test('is temporary if the disk, the file or another process is its cause; any other stays unchanged', () => {
    const withCode = (code?: string) => Object.assign(new Error('x'), { code });
    for (const name of ['BUSY_SNAPSHOT', 'LOCKED', 'FULL', 'IOERR_FSYNC', 'CORRUPT', 'READONLY', 'NOMEM']) {
      const cause = withCode(`SQLITE_${name}`);
      expect(translate(cause)).toMatchObject({ ...unavailable, cause });
    }
    for (const code of ['SQLITE_ERROR', 'SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_FULLER', 'ENOSPC', undefined])
      expect(translate(withCode(code))).toMatchObject({ message: 'x', code });
  });

  test('that is a bug gets 500 internal_error; its cause is only in the log, under the request id', async () => {
    const { databaseUrl, get, add, logged } = await startApp();
    const other = openOther(sqliteFile(databaseUrl));
    other.exec('ALTER TABLE pet RENAME TO canary_1f3a; CREATE VIEW pet AS SELECT * FROM canary_1f3a_missing');
    for (const answer of [await get('/v1/pets'), await add({ name: 'x', categoryId: 1 })]) {
      expect(answer.json).toMatchObject({ code: 'internal_error', status: 500 });
      expect(JSON.stringify(answer)).not.toMatch(/canary|sqlite/i);
      const own = logged(`"reqId":"${answer.headers['x-request-id']}"`);
      expect(JSON.stringify(own)).toContain('SQLITE_ERROR');
    }
  });
});

test('a store that another process is creating is opened when it is ready, or refused after five seconds', () => {
  const fail = () => {
    throw Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' });
  };
  vi.spyOn(Database.prototype, 'pragma').mockImplementationOnce(fail).mockImplementationOnce(fail);
  const file = makeStore();
  vi.spyOn(Database.prototype, 'pragma').mockImplementation(fail);
  vi.spyOn(performance, 'now').mockReturnValueOnce(0).mockReturnValue(5000);
  expect(() => makeStore(file)).toThrow('cannot be opened: database is locked');
});

describe('a file that is no store', () => {
  /** Writes a journal that restores a file of `pages` pages (https://sqlite.org/fileformat.html#the_rollback_journal). */
  function writeJournal(file: string, pages: number) {
    const header = Buffer.alloc(512);
    header.write('d9d505f920a163d7', 'hex');
    for (const [index, value] of [0, 7, pages, 512, 4096].entries()) header.writeUInt32BE(value, 8 + 4 * index);
    fs.writeFileSync(`${file}-journal`, header);
  }

  test.each([
    ['a journal', (file: string) => writeJournal(file, 0)],
    ['an empty file', (file: string) => fs.truncateSync(file)],
  ])(
    'as a process was killed while it created one, and left %s: commands name what completes it, and it is completed',
    async (_, leave) => {
      const file = newFile();
      change(file, 'PRAGMA user_version = 1; PRAGMA user_version = 0');
      leave(file);
      expect(() => openExisting(file)).toThrow(
        'holds no store: a copy or a command was interrupted. If it is no backup, but the store itself, start the server or run animal-store migrate to complete it.',
      );
      makeStore(file);
      openExisting(file).close();
    },
  );

  test('as restore leaves it that was killed: SQLite recovers the store, also for commands that only read', () => {
    const file = makeStore();
    change(file, `PRAGMA journal_mode = DELETE; ${insertPet}`);
    writeJournal(file, fs.statSync(file).size / 4096);
    const connection = openExisting(file);
    expect(connection.prepare('SELECT name FROM pet').pluck().all()).toEqual(['x']);
    connection.close();
    expect(fs.existsSync(`${file}-journal`)).toBe(false);
  });

  test.each([
    [1, '1 byte'],
    [511, '511 bytes'],
  ])('that has %d bytes is refused, and stays', async (size, counted) => {
    const file = newFile();
    fs.writeFileSync(file, '\0'.repeat(size));
    await expect(openStore(`sqlite:${file}`, { now })).rejects.toThrow(`${file} is no store: it has ${counted}.`);
    expect(() => openExisting(file)).toThrow(counted);
    await expect(restoreStore(makeStore(), file, now, expect.fail)).rejects.toThrow(counted);
    expect(fs.statSync(file).size).toBe(size);
  });

  test.each([
    ['missing', '-wal', fs.rmSync],
    ['missing', '-journal', fs.rmSync],
    ['empty', '-wal', fs.truncateSync],
  ])('but %s beside its %s is refused, and what is left stays', async (_, suffix, lose) => {
    const file = makeStore();
    lose(file);
    fs.writeFileSync(file + suffix, 'writes');
    const sentence = `${file} is missing or empty, but not ${file}${suffix}. Move the store back, or ${file}${suffix} elsewhere.`;
    await expect(openStore(`sqlite:${file}`, { now })).rejects.toThrow(sentence);
    expect(() => openExisting(file)).toThrow(sentence);
    expect(fs.readFileSync(file + suffix, 'utf8')).toBe('writes');
    expect(fs.existsSync(file)).toBe(lose === fs.truncateSync);
  });

  test.each(['-wal', '-shm', '-journal'])('but missing beside an empty %s is not created', async (suffix) => {
    const file = newFile();
    // A program that has it open would share it with the new store.
    fs.writeFileSync(file + suffix, '');
    const sentence = `SQLite would read what lies beside ${file} as a part of the new file: ${file}${suffix}. `;
    await expect(openStore(`sqlite:${file}`, { now })).rejects.toThrow(
      new RegExp(`^${sentence}.+ run rm ${file}${suffix} `),
    );
    await expect(restoreStore(makeStore(), file, now, expect.fail)).rejects.toThrow(sentence);
    expect(fs.readdirSync(path.dirname(file))).toEqual([path.basename(file) + suffix]);
  });

  const foreign = 'is a database of another application';
  const noDatabase = 'cannot be opened: file is not a database';
  const malformed = 'cannot be opened: database disk image is malformed';

  test.each<[what: string, sentence: string, make: (file: string) => void]>([
    [
      'a newer schema',
      'has schema version 999',
      (file) => [makeStore(file), change(file, 'PRAGMA user_version = 999')],
    ],
    ['a database without an application id', foreign, (file) => change(file, 'CREATE TABLE pet (id)')],
    ['another one with a journal', '', (file) => [change(file, 'CREATE TABLE pet (id)'), writeJournal(file, 2)]],
    ['garbage', noDatabase, (file) => fs.writeFileSync(file, 'not a database '.repeat(1000))],
    ['a folder', 'is not a file.', (file) => fs.mkdirSync(file)],
    [
      'a store truncated inside a page',
      malformed,
      (file) => [makeStore(file), fs.truncateSync(file, fs.statSync(file).size - 6000)],
    ],
    [
      'a store with a damaged schema',
      malformed,
      (file) => [makeStore(file), fs.writeFileSync(file, fs.readFileSync(file).fill(0xa5, 100, 3100))],
    ],
    ["another application's database", foreign, (file) => [makeStore(file), change(file, 'PRAGMA application_id = 7')]],
  ])('but %s is refused with one sentence and left unchanged', async (what, sentence, make) => {
    const file = newFile();
    make(file);
    const state = () =>
      [file, `${file}-journal`].map((name) =>
        fs.existsSync(name) && what !== 'a folder' ? fs.readFileSync(name) : null,
      );
    const before = state();
    await expect(openStore(`sqlite:${file}`, { now })).rejects.toThrow(OpenError);
    await expect(openStore(`sqlite:${file}`, { now })).rejects.toThrow(`${file} ${sentence}`);
    expect(state()).toEqual(before);
  });
});
