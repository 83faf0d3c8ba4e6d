/** Tests that a store must have the triggers and indexes of the migrations, and no other triggers: those could change what is stored. */
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { readMigrations } from '../../../src/store/migrations.ts';
import { openExisting, prepareStore } from '../../../src/store/sqlite/store-file.ts';
import { temporaryFolder } from '../../support/app.ts';
import { change, commandFolder, contentsOf } from '../../support/commands.ts';
import { biscuit, open } from '../../support/store.ts';
import { makeOlder } from '../../support/store-file.ts';

const now = () => new Date();

/** What a change makes of a store, as the sentence that refuses it names it. */
const foreign: [what: string, sql: string][] = [
  ['trigger thief is added', 'CREATE TRIGGER thief AFTER INSERT ON pet BEGIN DELETE FROM pet WHERE id < NEW.id; END'],
  [
    'trigger _litestream_seq is added',
    'CREATE TRIGGER _litestream_seq AFTER INSERT ON account BEGIN DELETE FROM pet; END',
  ],
  ['trigger a\\nb\\u001b is added', 'CREATE TRIGGER "a\nb\u001b" AFTER INSERT ON pet BEGIN SELECT 1; END'],
  ['trigger pet_deleted is missing', 'DROP TRIGGER pet_deleted'],
  [
    'trigger pet_deleted is changed',
    'DROP TRIGGER pet_deleted; CREATE TRIGGER pet_deleted AFTER DELETE ON pet BEGIN DELETE FROM message; END',
  ],
  ['index pet_status_id is missing', 'DROP INDEX pet_status_id'],
  ['index message_account_id is missing, index message_created_at is missing', 'DROP TABLE message'],
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
    'the CRLF of a checkout',
    `PRAGMA writable_schema = ON;
     UPDATE sqlite_schema SET sql = replace(sql, char(10), char(13, 10)) WHERE type = 'trigger'`,
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
  change(file, 'CREATE TRIGGER mine AFTER INSERT ON pet BEGIN SELECT 1; END');
  expect(() => prepareStore(file, { now })).toThrow('trigger mine is added.');
  change(file, 'DROP TRIGGER mine');
  prepareStore(file, { now });
});
