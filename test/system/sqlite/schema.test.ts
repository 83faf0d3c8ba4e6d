/** Tests that a store's schema must be that of the migrations: what others have added to it could change what is stored. */
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { readMigrations } from '../../../src/store/migrations.ts';
import { openExisting, prepareStore } from '../../../src/store/sqlite/store-file.ts';
import { temporaryFolder } from '../../support/app.ts';
import { change, commandFolder, contentsOf } from '../../support/commands.ts';
import { biscuit, open } from '../../support/store.ts';
import { makeOlder } from '../../support/store-file.ts';

const now = () => new Date();

const unsafely = (sql: string) => `PRAGMA writable_schema = ON; ${sql}; PRAGMA writable_schema = OFF`;

/** What a change makes of a store, as the sentence that refuses it names it. */
const foreign: [what: string, sql: string][] = [
  ['trigger thief is added', 'CREATE TRIGGER thief AFTER INSERT ON pet BEGIN DELETE FROM pet WHERE id < NEW.id; END'],
  ['trigger pet_deleted is missing', 'DROP TRIGGER pet_deleted'],
  [
    'trigger pet_deleted is changed',
    'DROP TRIGGER pet_deleted; CREATE TRIGGER pet_deleted AFTER DELETE ON pet BEGIN DELETE FROM message; END',
  ],
  ['view mine is added', 'CREATE VIEW mine AS SELECT 1'],
  [
    'view migration is added',
    `PRAGMA user_version = 9; DROP TABLE migration; CREATE VIEW migration AS
     WITH RECURSIVE endless (version, name) AS (SELECT 1, 'x' UNION ALL SELECT version + 1, name FROM endless) SELECT * FROM endless`,
  ],
  ['table mine is added', 'CREATE TABLE mine (account_id REFERENCES account (id))'],
  ['table _litestream is added', 'CREATE TABLE _litestream (id)'],
  [
    'trigger _litestream_seq is added',
    'CREATE TRIGGER _litestream_seq AFTER INSERT ON account BEGIN DELETE FROM pet; END',
  ],
  ['index mine is added', 'CREATE UNIQUE INDEX mine ON pet (name)'],
  ['index pet_status_id is missing', 'DROP INDEX pet_status_id'],
  ['table message is missing, index message_account_id is missing', 'DROP TABLE message'],
  ['table message is changed', 'ALTER TABLE message ADD COLUMN mine TEXT'],
  [
    'table pet is changed',
    unsafely(`UPDATE sqlite_schema SET sql = replace(sql, 'BETWEEN 1 AND 9007199254740991', '> 0') WHERE name = 'pet'`),
  ],
  // What stood behind the comment is now part of it.
  [
    'table api_key is changed',
    unsafely(
      `UPDATE sqlite_schema SET sql = replace(sql, 'of the key' || char(10), 'of the key ') WHERE name = 'api_key'`,
    ),
  ],
  ['trigger a\\nb\\u001b is added', 'CREATE TRIGGER "a\nb\u001b" AFTER INSERT ON pet BEGIN SELECT 1; END'],
];

test.each(foreign)('a store is refused, and left as it is: %s', async (what, sql) => {
  const { folder, store, at, refused } = await commandFolder(biscuit);
  change(store, sql);
  fs.copyFileSync(store, at('copy.db'));
  const before = contentsOf(folder);
  const sentence = expect.stringContaining(`store.db has a schema that no release makes: ${what}`);
  await expect(open(`sqlite:${store}`)).rejects.toMatchObject({ name: 'OpenError', message: sentence });
  for (const args of [['check'], ['backup', 'other.db'], ['account', 'list']])
    expect(await refused(...args)).toEqual(sentence);
  for (const command of ['check', 'restore'])
    expect(await refused(command, 'copy.db')).toContain(`copy.db has a schema that no release makes: ${what}`);
  for (const suffix of ['-wal', '-shm']) fs.rmSync(store + suffix, { force: true });
  for (const suffix of ['-wal', '-shm']) fs.rmSync(at(`copy.db${suffix}`), { force: true });
  expect(contentsOf(folder)).toEqual(before);
});

test.each([
  [
    'Litestream',
    `CREATE TABLE IF NOT EXISTS _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER);
     CREATE TABLE IF NOT EXISTS _litestream_lock (id INTEGER PRIMARY KEY, name TEXT UNIQUE)`,
  ],
  ['ANALYZE', 'ANALYZE'],
  ['a further index', 'CREATE INDEX mine ON pet (name)'],
  [
    'other white space and comments',
    unsafely(
      `UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ' -- ', char(10, 9) || '--'), 'SHA', 'the SHA'), char(10) || '  ', char(13, 10, 9))`,
    ),
  ],
])('a store is opened with %s', async (_, sql) => {
  const { store, at, run } = await commandFolder(biscuit);
  change(store, sql);
  await run('backup', 'copy.db');
  for (const args of [['check'], ['check', 'copy.db'], ['restore', 'copy.db']]) await run(...args);
  expect(fs.existsSync(at('copy.db'))).toBe(true);
  expect(await (await open(`sqlite:${store}`)).pets.add(biscuit)).toMatchObject({ id: 2n });
});

test.each(readMigrations('sqlite'))('a store with the schema of version $version is opened', ({ version }) => {
  const file = `${temporaryFolder()}/store.db`;
  makeOlder(file, version);
  openExisting(file).close();
  change(file, 'CREATE VIEW mine AS SELECT 1');
  expect(() => prepareStore(file, { now })).toThrow('view mine is added.');
  change(file, 'DROP VIEW mine');
  prepareStore(file, { now });
});
