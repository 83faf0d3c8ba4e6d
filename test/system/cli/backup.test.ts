/** The commands check, backup and restore. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { sqliteFile } from '../../../src/store/open.ts';
import { restoreStore } from '../../../src/store/sqlite/restore.ts';
import { password, redirect } from '../../support/account-pages.ts';
import { change, commandErrorOf, commandFolder, contentsOf, namesIn, query, useStore } from '../../support/commands.ts';
import { openFormClient } from '../../support/form-client.ts';
import { launchCli, runCli, startServer } from '../../support/process.ts';
import { mountSmallDisk } from '../../support/small-disk.ts';
import { makeOlder } from '../../support/store-file.ts';

const tabby = { name: 'Tabby', categoryId: 1n, status: 'available' } as const;
const rex = { name: 'Rex', categoryId: 9_007_199_254_740_993n, status: 'sold' } as const;

/** Replaces text in a file by as many other bytes. It must be there. */
function overwrite(file: string, was: string, is: string) {
  const bytes = fs.readFileSync(file, 'latin1');
  if (!bytes.includes(was) || was.length !== is.length) throw new Error(`${was} cannot be overwritten`);
  fs.writeFileSync(file, bytes.replaceAll(was, is), 'latin1');
}

const differing = 'Row 1 of pet has JSON that differs from its other columns.';

describe('check', () => {
  test('reports a sound store in full, as a table and as JSON, and does not change it', async () => {
    const { run, store } = await commandFolder(tabby, rex);
    const before = fs.readFileSync(store);
    expect(await run('check')).toMatch(
      /^file +\.\/data\/animal-store\.db\n(?:.+\n)+latest schema version +9\nrows of pet +2\nNo problems were found\.\n$/,
    );
    expect(JSON.parse(await run('check', '--json'))).toEqual({
      ...{ ok: true, file: './data/animal-store.db', rows: { pet: 2 }, problems: [] },
      ...{ sqliteVersion: expect.any(String), schemaVersion: 9, latestSchemaVersion: 9 },
    });
    expect(fs.readFileSync(store).equals(before)).toBe(true);
  });

  test.each<[string, (file: string) => void, string | RegExp]>([
    ['a missing file', (file) => fs.rmSync(file), 'copy.db does not exist.'],
    ['an empty file', (file) => fs.truncateSync(file), /^copy\.db holds no store: .+\.$/],
    ['a changed byte of JSON', (file) => overwrite(file, '"name":"Tabby"', '"name":"Tubby"'), differing],
    // In the row's header, 0x17 is the serial type of a text of 5 bytes, 0x16 that of a BLOB.
    ['a BLOB', (file) => overwrite(file, '\x00\x17\t\x1f', '\x00\x16\t\x1f'), /^integrity_check: .*pet\.name\.$/],
    [
      'a changed byte in an index',
      (file) => overwrite(file, '\t\tavailable', '\t\tavaixable'),
      /^integrity_check: row 1 missing from index pet_status_id\.$/m,
    ],
    [
      'a key without its account',
      (file) =>
        change(
          file,
          `PRAGMA foreign_keys = OFF; INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at)
           VALUES (7, 'x', 'x', zeroblob(32), 'pets:read', 0)`,
        ),
      'Row 1 of api_key refers to a missing row of account.',
    ],
    [
      'a scope that no release gives',
      (file) =>
        change(
          file,
          `INSERT INTO account (id, name, created_at) VALUES (1, 'zoo', 0);
           INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at)
           SELECT 1, 'x', 'x', randomblob(32), value, 0
           FROM json_each('["pets:read", "pets:write pets:read", "pets:read admin", ""]')`,
        ),
      'Row 3 of api_key has scopes that no release gives.\nRow 4 of api_key has scopes that no release gives.',
    ],
    [
      'ids that no client can read, or no list shows',
      (file) =>
        change(
          file,
          `INSERT INTO account (id, name, created_at) VALUES (9007199254740991, 'a', 0), (-1, 'b', 0);
           UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'pet'`,
        ),
      ['-1 of account', '9223372036854775807 of sqlite_sequence']
        .map((what) => `The id ${what} is not from 1 to 9007199254740991.`)
        .join('\n'),
    ],
  ])('exit 1 and its sentence: %s', async (_, spoil, sentence) => {
    const { folder, store, at } = await commandFolder(tabby);
    fs.renameSync(store, at('copy.db'));
    spoil(at('copy.db'));
    const { code, stdout, stderr } = await runCli(['check', 'copy.db', '--json'], { folder });
    const { ok, problems } = JSON.parse(stdout);
    const shown = typeof sentence === 'string' ? sentence : expect.stringMatching(sentence);
    expect([code, ok, problems.join('\n')]).toEqual([1, false, shown]);
    expect(stderr.replaceAll('animal-store: ', '')).toBe(`${problems.join('\n')}\n`);
  });
});

describe('backup', () => {
  test('is one file of its owner, holds the whole store and opens on a read-only disk', async () => {
    const { run, at, folder } = await commandFolder(tabby, rex);
    expect(await run('backup', 'copy.db')).toBe('Backed up 2 animals to copy.db.\n');
    expect(fs.readdirSync(folder).sort()).toEqual(['copy.db', 'data']);
    expect(fs.statSync(at('copy.db')).mode & 0o777).toBe(0o600);
    expect(query(at('copy.db'), 'PRAGMA journal_mode')).toEqual([{ journal_mode: 'delete' }]);
    expect(namesIn(at('copy.db'))).toEqual(['Tabby', 'Rex']);
    expect(await run('check', 'copy.db')).toMatch(/\nNo problems were found\.\n$/);
  });

  test('an older schema is backed up without migrating it', async () => {
    const { run, store, at } = await commandFolder(tabby);
    fs.rmSync(store);
    makeOlder(store, 2);
    await run('backup', 'copy.db');
    for (const file of [store, at('copy.db')])
      expect(query(file, 'PRAGMA user_version')).toEqual([{ user_version: 2 }]);
  });

  test('exit 1: the store itself under any name, a folder, a damaged store, and a missing one', async () => {
    const { refused, folder, at, store } = await commandFolder(tabby);
    fs.linkSync(store, at('alias.db'));
    fs.symlinkSync('data/animal-store.db-journal', at('log'));
    fs.writeFileSync(at('other'), 'precious');
    const before = contentsOf(folder);
    expect(await refused('backup', 'other')).toBe('other exists already: use --force to replace it.');
    for (const [name, sentence] of [
      ['data/animal-store.db', 'data/animal-store.db is the store itself.'],
      ['alias.db', 'alias.db is the store itself.'],
      ['log', 'log is the store itself.'],
      ['data', 'data is not a file.'],
      ['nowhere/copy.db', 'nowhere does not exist.'],
      ['new/', expect.stringContaining('ENOTDIR')],
    ] as const)
      expect(await refused('backup', name, '--force')).toEqual(sentence);
    for (const suffix of ['-shm', '-wal']) fs.rmSync(store + suffix, { force: true });
    expect(contentsOf(folder)).toEqual(before);
    overwrite(store, '"name":"Tabby"', '"name":"Tubby"');
    expect(await refused('backup', 'other.db')).toBe(`The copy of ./data/animal-store.db is not sound: ${differing}`);
    fs.rmSync(store);
    expect(await refused('backup', 'other.db')).toBe('DATABASE_URL: ./data/animal-store.db does not exist.');
    expect(fs.readdirSync(folder).sort()).toEqual(['alias.db', 'data', 'log', 'other']);
  });

  test('exit 1: on a full disk, no file is left behind, wherever the room ends', async (context) => {
    const { folder, run, at } = await commandFolder({ ...tabby, name: 'x'.repeat(300_000) });
    await run('backup', 'copy.db');
    const kibibytes = Math.ceil(fs.statSync(at('copy.db')).size / 1024);
    const disk = mountSmallDisk(context, at('small'), 200);
    let failures = 0;
    // From a copy that does not fit to one that fits with all that SQLite keeps beside it meanwhile.
    for (let room = kibibytes - 8; ; room += 4) {
      disk.resize(room);
      const exit = await runCli(['backup', 'small/copy.db'], { folder });
      if (exit.code === 0) break;
      expect(commandErrorOf(exit)).toMatch(/^small\/copy\.db\.partial-\S+ cannot be written: .+\.$/);
      expect(fs.readdirSync(at('small')), `${room} KiB`).toEqual([]);
      failures += 1;
    }
    expect(failures).toBeGreaterThan(2);
    expect(fs.readdirSync(at('small'))).toEqual(['copy.db']);
  });
});

// Beside a server, after a kill and under load: system/disk/backup.test.ts.
describe('restore', () => {
  /** A folder with a store of Rex and a backup of Tabby. */
  async function withBackup() {
    const [here, other] = await Promise.all([commandFolder(rex), commandFolder(tabby)]);
    change(other.store, 'PRAGMA journal_mode = DELETE');
    fs.renameSync(other.store, here.at('copy.db'));
    return { ...here, ...restoring(here) };
  }

  const restoring = ({ run, store }: Awaited<ReturnType<typeof commandFolder>>) => ({
    restore: () => run('restore', 'copy.db'),
    inData: () => fs.readdirSync(path.dirname(store)).sort(),
    /** The stores that restores have kept. */
    kept: () => fs.globSync(`${path.dirname(store)}/*.before-restore`),
  });

  test('replaces the store with the backup, and keeps the complete old store next to it', async () => {
    const { store, restore, kept, inData } = await withBackup();
    fs.chmodSync(store, 0o640);
    // Only root may change the owner of a file.
    const owner = process.getuid?.() === 0 ? 1000 : fs.statSync(store).uid;
    fs.chownSync(store, owner, -1);
    expect(await restore()).toMatch(
      /^Restored 1 animal from copy\.db\.\nThe previous store is kept as \.\/data\/animal-store\.db\.\w+\.before-restore\.\n$/,
    );
    const [old = ''] = kept();
    expect(inData()).toEqual(['animal-store.db', path.basename(old)]);
    expect([namesIn(old), namesIn(store)]).toEqual([['Rex'], ['Tabby']]);
    expect(fs.statSync(store)).toMatchObject({ mode: 0o100640, uid: owner });
    // A second restore does not overwrite the store that the first one kept.
    await restore();
    expect(kept()).toHaveLength(2);
  });

  test('replaces the file that a symbolic link leads to, and keeps the old store next to it', async () => {
    const { store, restore, at, refused } = await withBackup();
    const real = at('volume/real.db');
    fs.mkdirSync(at('volume'));
    fs.renameSync(store, real);
    fs.symlinkSync('../volume/real.db', store);
    await restore();
    expect(fs.readlinkSync(store)).toBe('../volume/real.db');
    const [old = ''] = fs.globSync(at('volume/*.before-restore'));
    expect([namesIn(old), namesIn(real), namesIn(store)]).toEqual([['Rex'], ['Tabby'], ['Tabby']]);
    expect(await refused('backup', '--force', 'volume/real.db-wal')).toBe('volume/real.db-wal is the store itself.');
    fs.mkdirSync(at('volume/5'));
    fs.symlinkSync('volume/5', at('current'));
    fs.symlinkSync('../real.db', at('volume/5/real.db'));
    expect(sqliteFile(`sqlite:${at('current/real.db')}`)).toBe(fs.realpathSync(real));
    fs.rmSync(real);
    await restore();
    expect([namesIn(real), fs.readlinkSync(store)]).toEqual([['Tabby'], '../volume/real.db']);
    // A link that leads to itself.
    fs.rmSync(store);
    fs.symlinkSync(store, store);
    expect(await refused('check')).toContain('ELOOP');
  });

  test.each<[string, number, (store: string) => void]>([
    ['a missing store', 0, (store) => fs.rmSync(path.dirname(store), { recursive: true })],
    ['an empty file', 1, (store) => fs.truncateSync(store)],
  ])('replaces %s, and keeps %d files', async (_, files, spoil) => {
    const { store, restore, kept } = await withBackup();
    spoil(store);
    expect(await restore()).toMatch(/^Restored 1 animal from copy\.db\.\n/);
    expect([namesIn(store), kept().length]).toEqual([['Tabby'], files]);
  });

  test('does not replace a store that a server has created meanwhile', async () => {
    const { at, store, folder } = await commandFolder(tabby);
    const file = at('new.db');
    const restoring = restoreStore(store, file, () => {
      fs.writeFileSync(file, 'of a server');
      return new Date();
    });
    await expect(restoring).rejects.toThrow('EEXIST');
    expect(fs.readFileSync(file, 'utf8')).toBe('of a server');
    expect(fs.readdirSync(folder).sort()).toEqual(['data', 'new.db']);
  });

  test('migrates an older schema to this release', async () => {
    const { at, store, folder, run } = await withBackup();
    change(at('copy.db'), 'DROP TABLE api_key_error; DELETE FROM migration WHERE version > 8');
    const { code, stderr } = await runCli(['restore', 'copy.db'], { folder });
    expect([code, stderr]).toEqual([0, 'Applied 0009_key_errors.sql.\n']);
    expect(await run('migrate')).toBe('The store is up to date.\n');
    expect(namesIn(store)).toEqual(['Tabby']);
  });

  test('does not reuse ids that were assigned after the backup', async () => {
    const here = await commandFolder(tabby);
    await here.run('backup', 'copy.db');
    change(
      here.store,
      `INSERT INTO account (name, created_at) VALUES ('a', 0), ('b', 0);
       UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'pet'`,
    );
    await here.run('restore', 'copy.db');
    await here.run('account', 'add', 'c');
    expect(query(here.store, 'SELECT id FROM account')).toEqual([{ id: 3 }]);
    // This one no release has assigned.
    expect(await useStore(here.folder, ({ pets }) => pets.add(tabby))).toMatchObject({ id: 2n });
  });

  test('revives no session that has ended since the backup, and no one-time link that was used', async () => {
    const here = await commandFolder(tabby);
    const { restore, kept } = restoring(here);
    const server = await startServer({ folder: here.folder });
    const ada = openFormClient(server.url);
    await ada.post('/account/sign-up', { name: 'ada', password });
    const token = ada.jar.get(ada.sessionName) as string;
    const link = new URL((await here.run('account', 'invite')).trim()).pathname;
    await here.run('backup', 'copy.db');
    await ada.post('/account/sign-out-everywhere');
    expect((await openFormClient(server.url).post(link, { name: 'ben', password })).status).toBe(303);
    await server.end('SIGTERM');

    await restore();
    const { url } = await startServer({ folder: here.folder });
    const ended = redirect('/account/sign-in?done=ended');
    const old = openFormClient(url);
    old.jar.set(old.sessionName, token);
    expect(await old.get('/account')).toMatchObject(ended);
    const again = openFormClient(url);
    expect((await again.post(link, { name: 'eve', password })).status).toBe(404);
    expect((await again.post('/account/sign-in', { name: 'ada', password })).status).toBe(303);
    // The kept store and the backup still have them.
    for (const file of [here.at('copy.db'), kept()[0] as string])
      expect(query(file, 'SELECT 1 AS one FROM session')).toHaveLength(1);
  });

  test.each([
    ['WAL', { readonly: true }],
    ['WAL', {}],
    ['DELETE', { readonly: true }],
  ])('exit 1: another program has it open, in mode %s: %j', async (mode, options) => {
    const { folder, store, inData } = await withBackup();
    change(store, `PRAGMA journal_mode = ${mode}`);
    const other = new Database(store, options);
    onTestFinished(() => void other.close());
    other.exec('BEGIN');
    other.prepare('SELECT * FROM pet').all();
    const exit = await launchCli(['restore', 'copy.db'], { folder }).end();
    expect(commandErrorOf(exit)).toMatch(/is in use/);
    expect(inData().filter((name) => name.includes('restor'))).toEqual([]);
    expect(other.prepare('SELECT name FROM pet').all()).toEqual([{ name: 'Rex' }]);
  });

  const cannotBeLocked =
    /^\.\/data\/animal-store\.db cannot be locked \(.+\): make sure that no server is running, then move \.\/data\/animal-store\.db\* elsewhere\.$/;
  test.each<[string, (copy: string, store: string) => void, RegExp | string]>([
    ['no backup', (copy) => fs.rmSync(copy), 'copy.db does not exist.'],
    [
      'a store that is no database, beside its log',
      (_, store) => {
        fs.writeFileSync(store, 'No store. '.repeat(1000));
        fs.writeFileSync(`${store}-wal`, 'its log');
      },
      cannotBeLocked,
    ],
    ['a store that is cut short after its header', (_, store) => fs.truncateSync(store, 512), cannotBeLocked],
    // Perhaps a server still has both open.
    ['a log without its store', (_, store) => fs.renameSync(store, `${store}-wal`), 'is missing or empty, but not'],
  ])('exit 1 and all files unchanged: %s', async (_, spoil, sentence) => {
    const { folder, store, at, refused } = await withBackup();
    spoil(at('copy.db'), store);
    const before = contentsOf(folder);
    expect(await refused('restore', 'copy.db')).toMatch(sentence);
    expect(contentsOf(folder)).toEqual(before);
  });

  test('exit 1: the store itself, and a full disk without a store', async (context) => {
    const { store, refused, inData } = await withBackup();
    expect(await refused('restore', 'data/animal-store.db')).toBe('data/animal-store.db is the store itself.');
    fs.rmSync(path.dirname(store), { recursive: true });
    mountSmallDisk(context, path.dirname(store), 40);
    expect(await refused('restore', 'copy.db')).toMatch(/partial-\S+ cannot be written: .*full\.$/);
    expect(inData()).toEqual([]);
  });
});
