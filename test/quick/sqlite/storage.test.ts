/** Tests of the SQLite store: its file, reads, writes, errors, migrations, and files that it refuses. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { hashKey, newSecret, scopes } from '../../../src/core/accounts.ts';
import { ApiError } from '../../../src/core/errors.ts';
import { type PetStatus, statuses } from '../../../src/core/pets.ts';
import { openStore, sqliteFile } from '../../../src/store/open.ts';
import { openConnection, openReader, translate } from '../../../src/store/sqlite/connection.ts';
import { prepareStore } from '../../../src/store/sqlite/store-file.ts';
import { OpenError, type Store } from '../../../src/store/store.ts';
import { startApp, temporaryFolder } from '../../support/app.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { runCli } from '../../support/process.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

afterEach(() => {
  vi.restoreAllMocks();
});

async function openSqlite({ now = () => new Date() } = {}): Promise<{ store: Store; file: string }> {
  const file = path.join(temporaryFolder(), 'store.db');
  const store = await openStore(`sqlite:${file}`, { now });
  onTestFinished(() => store.close());
  return { store, file };
}

/** Opens a second connection to the file, as another program would. */
function openOther(file: string): Database.Database {
  const other = new Database(file);
  onTestFinished(() => void other.close());
  return other;
}

/** A store with one pet and one key. The first page of `table` in its file is overwritten. */
async function openDamaged(table: 'pet' | 'pet_revision' | 'message'): Promise<{ store: Store; key: string }> {
  const { store, file } = await openSqlite();
  const secret = newSecret(false);
  await store.accounts.addAccount('owner');
  await store.accounts.addKey({ account: 'owner', name: 'k', scopes: [...scopes], lifetimeMs: null, secret });
  await store.pets.add(biscuit);
  await store.close();

  const other = new Database(file, { readonly: true });
  const page = other.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').pluck().get(table) as number;
  const size = pragma(other, 'page_size');
  other.close();
  const bytes = fs.readFileSync(file);
  fs.writeFileSync(file, bytes.fill(0xff, (page - 1) * size, page * size));

  const damaged = await openStore(`sqlite:${file}`, { now: () => new Date() });
  onTestFinished(() => damaged.close());
  return { store: damaged, key: secret.key };
}

const pragma = (connection: Database.Database, name: string) => Number(connection.pragma(name, { simple: true }));

describe('the file', () => {
  test('has the application id, the schema version of the oldest release that can open it, and only strict tables', async () => {
    const { file } = await openSqlite();
    const other = openOther(file);
    expect(other.pragma('application_id', { simple: true })).toBe(0x414e4d4c);
    expect(other.pragma('user_version', { simple: true })).toBe(3);
    expect(other.pragma('journal_mode', { simple: true })).toBe('wal');
    expect(other.pragma('integrity_check', { simple: true })).toBe('ok');
    const tables = (other.pragma('table_list') as { name: string; strict: number }[]).filter(
      ({ name }) => !name.startsWith('sqlite_'),
    );
    expect(tables.map(({ name }) => name).sort()).toEqual([
      ...[
        'account',
        'account_event',
        'api_key',
        'api_key_usage',
        'attempt',
        'counted_attempt',
        'form_token',
        'idempotency',
      ],
      ...['import', 'message'],
      ...['migration', 'one_time_link', 'pet', 'pet_revision', 'rotated_key', 'session'],
    ]);
    expect(tables.filter(({ strict }) => strict !== 1)).toEqual([]);
    const columns = other.pragma('index_info(pet_status_id)') as { name: string }[];
    expect(columns.map(({ name }) => name)).toEqual(['status', 'id']);
  });

  test('is created with its folder, and is a single file after close', async () => {
    const file = path.join(temporaryFolder(), 'a', 'b', 'store.db');
    const store = await openStore(`sqlite:${file}`, { now: () => new Date() });
    await store.pets.add(biscuit);
    await store.close();
    expect(fs.readdirSync(path.dirname(file))).toEqual(['store.db']);
  });

  test('is written with synchronous=FULL, even after a write, when better-sqlite3 would fall back to NORMAL', () => {
    const file = path.join(temporaryFolder(), 'store.db');
    const now = () => new Date();
    prepareStore(file, { now });
    const connection = openConnection(file);
    const settings = () =>
      ['synchronous', 'foreign_keys', 'trusted_schema', 'busy_timeout'].map((name) => pragma(connection, name));
    expect(settings()).toEqual([2, 1, 0, 5000]);
    connection.exec(`INSERT INTO pet (name, category_id, status) VALUES ('x', 1, 'sold')`);
    connection.transaction(() => connection.exec(`UPDATE pet SET status = 'pending'`)).immediate();
    expect(settings()).toEqual([2, 1, 0, 5000]);
    connection.close();
  });

  test('is read through a connection that cannot write', async () => {
    const { file } = await openSqlite();
    const reader = openReader(file);
    expect(['foreign_keys', 'trusted_schema'].map((name) => pragma(reader, name))).toEqual([1, 0]);
    expect(() => reader.exec('DELETE FROM pet')).toThrow('readonly');
    reader.close();
  });

  test('holds no key, only its hash and its first characters', async () => {
    const { store, file } = await openSqlite();
    const secret = newSecret(false);
    await store.accounts.addAccount('a');
    await store.accounts.addKey({ account: 'a', name: 'k', scopes: ['pets:read'], lifetimeMs: null, secret });
    expect(openOther(file).prepare('SELECT hash, hint FROM api_key').get()).toEqual({
      hash: hashKey(secret.key),
      hint: secret.key.slice(0, 13),
    });
    for (const name of fs.readdirSync(path.dirname(file)))
      expect(fs.readFileSync(path.join(path.dirname(file), name)).includes(secret.key.slice(0, 20))).toBe(false);
  });
});

describe('reading', () => {
  test('every list walks the rowid or the index and sorts nothing, so that it costs no more in a larger store', async () => {
    const prepare = vi.spyOn(Database.prototype, 'prepare');
    const { file } = await openSqlite();
    const lists = prepare.mock.calls.map(([sql]) => sql).filter((sql) => /FROM pet WHERE .* LIMIT/.test(sql));
    const other = openOther(file);
    const plans = lists.map((sql) => {
      const parameters = Array(sql.split('?').length - 1).fill(1);
      const steps = other.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...parameters) as { detail: string }[];
      return steps.map(({ detail }) => detail);
    });
    expect(plans).toEqual([
      ['SEARCH pet USING INTEGER PRIMARY KEY (rowid>?)'],
      ['SEARCH pet USING INDEX pet_status_id (status=? AND id>?)'],
    ]);
  });

  test('a damaged table gets 503 service_unavailable', async () => {
    const [{ store }, unknown] = [await openDamaged('pet'), await openDamaged('pet_revision')];
    await expect((async () => unknown.store.pets.find(1n))()).rejects.toMatchObject({ code: 'service_unavailable' });
    for (const read of [() => store.pets.list({ limit: 20, after: 0n }), () => store.pets.find(1n)])
      await expect((async () => read())()).rejects.toMatchObject({
        code: 'service_unavailable',
        cause: { code: 'SQLITE_CORRUPT' },
      });
  });
});

describe('writing', () => {
  /** Counts the commits in the write-ahead log (WAL): frames that end a transaction (https://sqlite.org/fileformat2.html#walformat). */
  function commitsIn(file: string): number {
    const log = fs.readFileSync(`${file}-wal`);
    const frameSize = 24 + log.readUInt32BE(8);
    const salt = log.subarray(16, 24);
    let commits = 0;
    for (let start = 32; start + frameSize <= log.length; start += frameSize) {
      const ends = log.readUInt32BE(start + 4) !== 0;
      if (ends && log.subarray(start + 8, start + 16).equals(salt)) commits += 1;
    }
    return commits;
  }

  test('all writes of one turn of the event loop share one commit', async () => {
    const { store, file } = await openSqlite();
    await store.pets.add(biscuit);
    const before = commitsIn(file);
    await Promise.all(Array.from({ length: 200 }, () => store.pets.add(biscuit)));
    expect(commitsIn(file)).toBe(before + 1);
    for (let i = 0; i < 3; i++) await store.pets.add(biscuit);
    expect(commitsIn(file)).toBe(before + 4);
    expect(openOther(file).prepare('SELECT count(*) FROM pet').pluck().get()).toBe(204);
  });

  test('a commit holds at most 1,000 writes, after which the WAL is copied into the file', async () => {
    const file = path.join(temporaryFolder(), 'store.db');
    const commits: number[] = [];
    const store = await openStore(`sqlite:${file}`, {
      now: () => new Date(),
      metrics: { commit: (writes: number) => commits.push(writes), query: () => undefined },
    });
    onTestFinished(() => store.close());
    const held = () => fs.statSync(file).size;
    const before = held();
    const long = { ...biscuit, name: 'x'.repeat(1000) };
    const add = (count: number) => Promise.all(Array.from({ length: count }, () => store.pets.add(long)));
    await add(999);
    expect([commits, held()]).toEqual([[999], before]);
    await add(1);
    await vi.waitFor(() => expect(held()).toBeGreaterThan(1_000_000), 5000);
    await add(2500);
    expect(commits).toEqual([999, 1, 1000, 1000, 500]);
  });

  test('each new retry deletes ten expired ones', async () => {
    let time = Date.UTC(2027, 0, 1);
    const { store, file } = await openSqlite({ now: () => new Date(time) });
    const add = (key: string) => store.pets.add(biscuit, { accountId: 1, key });
    await Promise.all(Array.from({ length: 30 }, (_, index) => add(`old ${index}`)));
    time += 24 * 60 * 60 * 1000;
    expect(await add('old 1')).toMatchObject({ outcome: 'added', id: 31n });
    expect(openOther(file).prepare('SELECT count(*) FROM idempotency').pluck().get()).toBe(21);
  });

  test('retries that share a batch get the outcome of their key, in their order', async () => {
    const { store } = await openSqlite();
    const add = (name: string, key?: string) =>
      store.pets.add({ ...biscuit, name }, key === undefined ? undefined : { accountId: 1, key });
    const outcomes = await Promise.all([
      ...[add('a', 'one'), add('b'), add('c', 'two'), add('a', 'one'), add('d', 'one'), add('e', 'three')],
      store.pets.add({ ...biscuit, name: 'f' }, { accountId: 2, key: 'one' }),
    ]);
    const petOf = (id: number, name: string) => `{"id":${id},"name":"${name}","categoryId":7,"status":"available"}`;
    expect(outcomes).toEqual([
      { outcome: 'added', id: 1n, pet: petOf(1, 'a') },
      { outcome: 'added', id: 2n, pet: petOf(2, 'b') },
      { outcome: 'added', id: 3n, pet: petOf(3, 'c') },
      { outcome: 'replayed', id: 1n, pet: petOf(1, 'a') },
      { outcome: 'reused' },
      { outcome: 'added', id: 4n, pet: petOf(4, 'e') },
      { outcome: 'added', id: 5n, pet: petOf(5, 'f') },
    ]);
    expect(await add('e', 'three')).toMatchObject({ outcome: 'replayed', id: 4n });
  });

  test('a write is acknowledged only after its commit, which other connections then see', async () => {
    const { store, file } = await openSqlite();
    const count = openOther(file).prepare('SELECT count(*) FROM pet').pluck();
    const seen: unknown[] = [];
    const adding = Array.from({ length: 20 }, () => store.pets.add(biscuit).then(() => seen.push(count.get())));
    expect(count.get()).toBe(0);
    await Promise.resolve();
    expect([count.get(), seen]).toEqual([0, []]);
    await Promise.all(adding);
    expect(seen).toEqual(Array(20).fill(20));
  });

  test('an accepted write is committed before the store closes', async () => {
    const { store, file } = await openSqlite();
    const adding = store.pets.add(biscuit);
    await store.close();
    expect(await adding).toMatchObject({ outcome: 'added', id: 1n });
    expect(openOther(file).prepare('SELECT id FROM pet').pluck().all()).toEqual([1]);
  });

  test('each pet of a batch gets the id that is answered, with its exact row, whatever stands between them', async () => {
    const { store, file } = await openSqlite();
    const secret = newSecret(false);
    await store.accounts.addAccount('owner');
    await store.accounts.addKey({ account: 'owner', name: 'k', scopes: [...scopes], lifetimeMs: null, secret });
    const names = ['"\\\n\u0001\u2028', 'é😀', '[1]', '{"name":"a"}', 'null', ' 7 ', '0x10'];
    const ids = [0n, 7n, -(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n + 1n, -1n];
    const petAt = (index: number) => ({
      name: `${names[index % names.length]}${index % 11 === 0 ? '' : index}`,
      categoryId: ids[index % ids.length] as bigint,
      status: statuses[index % 3] as PetStatus,
    });
    const adding = Array.from({ length: 700 }, (_, index) => {
      if (index === 500) void store.accounts.revokeKey(1);
      return index % 50 === 7
        ? store.pets.add(petAt(index % 100), { accountId: 1, key: `${index % 100}` })
        : store.pets.add(petAt(index), undefined, index % 40 === 3 ? 1 : undefined);
    });
    const outcomes = (await Promise.all(adding)).map((addition, index) => ({ ...addition, index }));
    const rows = openOther(file).prepare('SELECT id, json, name, category_id, status FROM pet').safeIntegers().all();
    const added = outcomes.flatMap((addition) => {
      if (addition.outcome !== 'added') return [];
      const { name, categoryId, status } = petAt(addition.index);
      return { id: addition.id, json: addition.pet, name, category_id: categoryId, status };
    });
    expect(rows).toEqual(added);
    expect(rows.map((row) => (row as { id: bigint }).id)).toEqual(rows.map((_, index) => BigInt(index + 1)));
    const count = (outcome: string) => outcomes.filter((addition) => addition.outcome === outcome).length;
    expect([count('added'), count('replayed'), count('revoked_api_key')]).toEqual([683, 12, 5]);
  });

  test('each pet of a batch is added if its key was valid at its own time', async () => {
    let time = 1000;
    const { store } = await openSqlite({ now: () => new Date(time) });
    await store.accounts.addAccount('owner');
    for (const lifetimeMs of [1000, null]) {
      const secret = newSecret(false);
      await store.accounts.addKey({ account: 'owner', name: 'k', scopes: [...scopes], lifetimeMs, secret });
    }
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

  test('an id is above all others, also if another program has changed one', async () => {
    const { store, file } = await openSqlite();
    for (let i = 0; i < 3; i++) await store.pets.add(biscuit);
    openOther(file).exec('UPDATE pet SET id = 50 WHERE id = 2');
    expect(await store.pets.add(biscuit)).toMatchObject({ id: 51n });
  });

  test('an id is never reused, even if its row is deleted', async () => {
    const { store, file } = await openSqlite();
    for (let i = 0; i < 3; i++) await store.pets.add(biscuit);
    openOther(file).exec('DELETE FROM pet');
    expect(await store.pets.add(biscuit)).toMatchObject({ id: 4n });
    await store.close();
    const reopened = await openStore(`sqlite:${file}`, { now: () => new Date() });
    openOther(file).exec('DELETE FROM pet');
    expect(await reopened.pets.add(biscuit)).toMatchObject({ id: 5n });
    await reopened.close();
  });

  test('a failed write gets 503 service_unavailable, with its cause in the log; other reads and writes continue', async () => {
    const { store, key } = await openDamaged('message');
    const { add, call, log } = await startApp({ store });
    const answer = await call('POST', '/quickstart/messages', { key, body: { message: 'Hello' } });
    expect(answer.json).toEqual({
      code: 'service_unavailable',
      message: 'The service cannot answer right now; try again after the time in Retry-After.',
      status: 503,
    });
    expect(answer.headers).toMatchObject({ 'retry-after': '1', 'content-type': 'application/json' });
    const line = log()
      .split('\n')
      .find((text) => text.includes(`"reqId":"${answer.headers['x-request-id']}"`) && text.includes('"level":50'));
    expect(line).toContain('SQLITE_CORRUPT');

    expect((await call('POST', '/v1/pets', { key, body: { name: 'after', categoryId: 1 } })).status).toBe(201);
    expect((await call('GET', '/v1/pets', { key })).json).toMatchObject([{ name: 'Biscuit' }, { name: 'after' }]);
    expect((await add({ name: 'unknown key', categoryId: 1 })).status).toBe(401);
  });

  test('if one write of a batch fails, none of them is stored or acknowledged', async () => {
    const { store } = await openDamaged('message');
    const message = {
      id: 'msg_1',
      accountId: 1,
      message: 'Hello',
      status: 'queued',
      createdAt: '2027-01-01T00:00:00Z',
    };
    const writes = [store.pets.add(biscuit), store.messages.add(message), store.pets.add(biscuit)];
    for (const outcome of await Promise.allSettled(writes))
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'service_unavailable' } });
    expect((await store.pets.list({ limit: 100, after: 0n })).pets.map((pet) => JSON.parse(pet).id)).toEqual([1]);
    expect(await store.pets.add(biscuit)).toMatchObject({ id: 2n });
  });
});

test('a write that the schema forbids fails alone: the others of its batch are stored', async () => {
  const { store, file } = await openSqlite();
  openOther(file).exec("INSERT INTO pet (id, name, category_id, status) VALUES (9007199254740991, 'last', 1, 'sold')");
  const [first, pet, second] = await Promise.allSettled([
    store.accounts.addAccount('first'),
    store.pets.add(biscuit),
    store.accounts.addAccount('second'),
  ]);
  expect([first, second]).toMatchObject([{ value: { name: 'first' } }, { value: { name: 'second' } }]);
  expect(pet).toMatchObject({ status: 'rejected', reason: { code: 'SQLITE_CONSTRAINT_CHECK' } });
  expect((await store.accounts.listAccounts()).map(({ name }) => name)).toEqual(['first', 'second']);
  expect(store.measure().failedWrites).toMatchObject({ other: 1 });
});

test('the store measures its waiting writes and the size of the WAL', async () => {
  const { store, file } = await openSqlite();
  expect(store.measure()).toMatchObject({ waitingWrites: 0, walBytes: 0 });
  const adding = [store.pets.add(biscuit), store.pets.add(biscuit)];
  expect(store.measure().waitingWrites).toBe(2);
  await Promise.all(adding);
  const { size } = fs.statSync(`${file}-wal`);
  expect(size).toBeGreaterThan(4096);
  expect(store.measure()).toMatchObject({ waitingWrites: 0, walBytes: size });
  await store.close();
  expect(store.measure()).toMatchObject({ waitingWrites: 0, walBytes: 0 });
});

describe('an SQLite error', () => {
  test.each([
    ...['SQLITE_BUSY', 'SQLITE_BUSY_SNAPSHOT', 'SQLITE_LOCKED', 'SQLITE_FULL', 'SQLITE_IOERR', 'SQLITE_IOERR_FSYNC'],
    ...['SQLITE_CORRUPT', 'SQLITE_READONLY', 'SQLITE_CANTOPEN', 'SQLITE_NOMEM', 'SQLITE_NOTADB', 'SQLITE_PROTOCOL'],
  ])('%s is temporary and becomes service_unavailable', (code) => {
    const cause = Object.assign(new Error('x'), { code });
    const error = translate(cause) as ApiError;
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ code: 'service_unavailable', cause });
  });

  test.each(['SQLITE_ERROR', 'SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_MISUSE', 'SQLITE_FULLER', 'ENOSPC', undefined])(
    '%s is a bug and stays unchanged',
    (code) => {
      const error = Object.assign(new Error('x'), { code });
      expect(translate(error)).toBe(error);
    },
  );

  test('that is a bug gets 500 internal_error with a fixed message; its cause is only in the log, under the request id', async () => {
    const { databaseUrl, call, add, log } = await startApp();
    const file = sqliteFile(databaseUrl);
    openOther(file).exec('ALTER TABLE pet RENAME TO canary_1f3a');
    openOther(file).exec('CREATE VIEW pet AS SELECT * FROM canary_1f3a_missing');
    for (const answer of [await call('GET', '/v1/pets'), await add({ name: 'x', categoryId: 1 })]) {
      expect(answer.json).toEqual({
        code: 'internal_error',
        message: "The server has a fault. Its log has the details under this response's X-Request-Id.",
        status: 500,
      });
      expect(JSON.stringify(answer)).not.toMatch(/canary|sqlite/i);
      const lines = log()
        .split('\n')
        .filter((line) => line.includes(`"reqId":"${answer.headers['x-request-id']}"`));
      expect(lines.join()).toContain('SQLITE_ERROR');
    }
  });
});

describe('a store with a missing table', () => {
  function openWithout(table: string) {
    const file = path.join(temporaryFolder(), 'store.db');
    prepareStore(file, { now: () => new Date() });
    openOther(file).exec(`DROP TABLE ${table}`);
    const fatal: Error[] = [];
    const open = () => openStore(`sqlite:${file}`, { now: () => new Date(), onFatal: (error) => fatal.push(error) });
    return { open, file, fatal };
  }

  test('is refused if it cannot be read', async () => {
    const { open, file } = openWithout('pet');
    await expect(open()).rejects.toThrow(new OpenError(`${file} cannot be opened: no such table: pet.`));
  });

  test('reports the error once and accepts no write if it cannot be written', async () => {
    const { open, fatal } = openWithout('message');
    const store = await open();
    onTestFinished(() => store.close());
    await expect(store.pets.add(biscuit)).rejects.toMatchObject({ code: 'service_unavailable' });
    await vi.waitFor(() => expect(fatal.map(({ message }) => message)).toEqual(['no such table: message']));
    expect(await store.pets.list({ limit: 20, after: 0n })).toMatchObject({ pets: [], next: undefined });
  });
});

describe('migrations', () => {
  test('each is applied once, reported and recorded', async () => {
    const file = path.join(temporaryFolder(), 'store.db');
    const time = new Date('2027-01-02T03:04:05.678Z');
    const open = async (now: Date) => {
      const { migrated, close } = await openStore(`sqlite:${file}`, { now: () => now });
      await close();
      return migrated;
    };
    const names = fs.readdirSync('migrations/sqlite').sort();
    expect([await open(time), await open(new Date())]).toEqual([names, []]);
    const recorded = openOther(file).prepare('SELECT version, name, applied_at FROM migration ORDER BY version').all();
    const rows = names.map((name, index) => ({ version: index + 1, name, applied_at: time.getTime() }));
    expect(recorded).toEqual([{ version: 0, name: '1.0.0', applied_at: 0 }, ...rows]);
  });

  test('0002 keeps every pet and the assigned ids', async () => {
    const file = path.join(temporaryFolder(), 'store.db');
    const old = new Database(file);
    old.exec(fs.readFileSync('migrations/sqlite/0001_initial.sql', 'utf8'));
    old.exec(`INSERT INTO migration VALUES (1, '0001_initial.sql', 0);
      INSERT INTO pet (name, category_id, status) VALUES ('a"é', 9223372036854775807, 'sold'), ('b', 2, 'pending'), ('c', 3, 'sold');
      DELETE FROM pet WHERE id = 3;
      PRAGMA application_id = ${0x414e4d4c}; PRAGMA user_version = 1`);
    old.close();
    const store = await openStore(`sqlite:${file}`, { now: () => new Date() });
    onTestFinished(() => store.close());
    expect((await store.pets.list({ limit: 100, after: 0n })).pets).toEqual([
      '{"id":1,"name":"a\\"é","categoryId":9223372036854775807,"status":"sold"}',
      '{"id":2,"name":"b","categoryId":2,"status":"pending"}',
    ]);
    expect((await store.pets.list({ limit: 100, status: 'pending', after: 0n })).pets).toHaveLength(1);
    expect(await store.pets.add(biscuit)).toMatchObject({ id: 4n });
  });

  test('a store that another process is creating is opened when it is ready, or refused after five seconds', () => {
    const file = path.join(temporaryFolder(), 'store.db');
    const busy = Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' });
    const fail = () => {
      throw busy;
    };
    vi.spyOn(Database.prototype, 'pragma').mockImplementationOnce(fail).mockImplementationOnce(fail);
    prepareStore(file, { now: () => new Date() });
    vi.spyOn(Database.prototype, 'pragma').mockImplementation(fail);
    vi.spyOn(Date, 'now').mockReturnValueOnce(0).mockReturnValue(5000);
    expect(() => prepareStore(file, { now: () => new Date() })).toThrow('cannot be opened: database is locked');
  });

  describe('a rollback journal that a killed process left', () => {
    /** A journal that restores a file of `pages` pages (https://sqlite.org/fileformat.html#the_rollback_journal). */
    function writeJournal(file: string, pages: number): void {
      const header = Buffer.alloc(512);
      header.write('d9d505f920a163d7', 'hex');
      for (const [index, value] of [0, 7, pages, 512, 4096].entries()) header.writeUInt32BE(value, 8 + 4 * index);
      fs.writeFileSync(`${file}-journal`, header);
    }

    test.each([
      ['a journal', (file: string) => writeJournal(file, 0)],
      ['only its first page', () => undefined],
      ['an empty file', (file: string) => fs.truncateSync(file)],
    ])('while it created the store, %s: commands name what completes it, and it is completed', async (_, leave) => {
      const folder = temporaryFolder();
      const file = path.join(folder, 'data/animal-store.db');
      fs.mkdirSync(path.dirname(file));
      const other = new Database(file);
      other.pragma('user_version = 1');
      other.pragma('user_version = 0');
      other.close();
      leave(file);
      const sentence =
        './data/animal-store.db holds no store yet, as a command was interrupted: start the server or run animal-store migrate to complete it.';
      for (const args of [['check'], ['backup', 'copy.db']])
        expect(commandErrorOf(await runCli(args, { folder })).replace('DATABASE_URL: ', '')).toBe(sentence);
      expect(await runCli(['migrate'], { folder })).toMatchObject({ code: 0 });
      expect(await runCli(['check'], { folder })).toMatchObject({ code: 0 });
    });

    test('in a database of another application stays, and the database is refused', async () => {
      const file = path.join(temporaryFolder(), 'store.db');
      const other = new Database(file);
      other.exec('CREATE TABLE theirs (id INTEGER)');
      other.close();
      writeJournal(file, 2);
      const before = fs.readFileSync(file);
      await expect(openStore(`sqlite:${file}`, { now: () => new Date() })).rejects.toThrow(OpenError);
      expect(fs.readFileSync(file)).toEqual(before);
      expect(fs.existsSync(`${file}-journal`)).toBe(true);
    });
  });

  test('an empty file becomes a store', async () => {
    const file = path.join(temporaryFolder(), 'store.db');
    fs.writeFileSync(file, '');
    await (await openStore(`sqlite:${file}`, { now: () => new Date() })).close();
    expect(openOther(file).pragma('application_id', { simple: true })).toBe(0x414e4d4c);
  });

  const sqlite = (file: string, sql: string) => {
    const database = new Database(file);
    database.exec(sql);
    database.close();
  };

  test.each([
    {
      what: 'a newer schema',
      make: (file: string) => {
        prepareStore(file, { now: () => new Date() });
        sqlite(file, 'PRAGMA user_version = 999');
      },
      sentence: 'has schema version 999; this release supports versions up to',
    },
    {
      what: 'a database of another application',
      make: (file: string) => sqlite(file, 'PRAGMA application_id = 1; CREATE TABLE a (b)'),
      sentence: 'is a database of another application',
    },
    {
      what: 'an empty database of another application',
      make: (file: string) => sqlite(file, 'PRAGMA application_id = 1'),
      sentence: 'is a database of another application',
    },
    {
      what: 'a database without an application id',
      make: (file: string) => sqlite(file, 'CREATE TABLE pet (id)'),
      sentence: 'is a database of another application',
    },
    {
      what: 'garbage',
      make: (file: string) => fs.writeFileSync(file, 'not a database '.repeat(1000)),
      sentence: 'cannot be opened: file is not a database',
    },
    {
      what: 'a few letters',
      make: (file: string) => fs.writeFileSync(file, 'hello'),
      sentence: 'cannot be opened: file is not a database',
    },
    {
      what: 'a file cut short',
      make: (file: string) => {
        prepareStore(file, { now: () => new Date() });
        fs.truncateSync(file, 6000);
      },
      sentence: 'cannot be opened: database disk image is malformed',
    },
  ])('$what is refused with one sentence and left unchanged', async ({ make, sentence }) => {
    const file = path.join(temporaryFolder(), 'store.db');
    make(file);
    const hash = () => createHash('sha256').update(fs.readFileSync(file)).digest('hex');
    const before = hash();
    const open = () => openStore(`sqlite:${file}`, { now: () => new Date() });
    await expect(open()).rejects.toThrow(OpenError);
    await expect(open()).rejects.toThrow(`${file} ${sentence}`);
    expect(hash()).toBe(before);
  });

  test('a folder is refused, and so is a file whose folder cannot be created', async () => {
    const folder = temporaryFolder();
    const open = (file: string) => openStore(`sqlite:${file}`, { now: () => new Date() });
    await expect(open(folder)).rejects.toThrow(new OpenError(`${folder} is not a file.`));
    fs.writeFileSync(path.join(folder, 'a'), '');
    await expect(open(path.join(folder, 'a', 'store.db'))).rejects.toThrow(OpenError);
    expect(fs.readdirSync(folder)).toEqual(['a']);
  });
});
