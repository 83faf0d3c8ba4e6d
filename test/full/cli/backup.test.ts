/** The commands check, backup and restore. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { restoreStore } from '../../../src/store/sqlite/restore.ts';
import { password } from '../../support/account-pages.ts';
import { type CommandFolder, change, commandErrorOf, commandFolder, namesIn, query } from '../../support/commands.ts';
import { openFormClient } from '../../support/form-client.ts';
import { launchCli, runCli, startServer } from '../../support/process.ts';
import { mountSmallDisk, noDisk } from '../../support/small-disk.ts';

const tabby = { name: 'Tabby', categoryId: 1n, status: 'available' } as const;
const rex = { name: 'Rex', categoryId: 9_007_199_254_740_993n, status: 'sold' } as const;

/** The bytes of every file in a folder and its subfolders, by name. */
function contentOf(folder: string): Record<string, string> {
  const names = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const files = names.filter((name) => fs.statSync(path.join(folder, name)).isFile());
  return Object.fromEntries(files.map((name) => [name, fs.readFileSync(path.join(folder, name), 'latin1')]));
}

/** Replaces bytes of a file by as many others. They must be there. */
function overwrite(file: string, was: string, is: string): void {
  const bytes = fs.readFileSync(file);
  const place = bytes.indexOf(was);
  if (place === -1 || was.length !== is.length) throw new Error(`${was} cannot be overwritten`);
  bytes.write(is, place);
  fs.writeFileSync(file, bytes);
}

const keptIn = ({ folder }: CommandFolder) =>
  fs.readdirSync(path.join(folder, 'data')).filter((name) => name.endsWith('.before-restore'));

describe('check', { timeout: 60_000 }, () => {
  test('reports a sound store in full, as a table and as JSON, and does not change it', async () => {
    const { run, store } = await commandFolder(tabby, rex);
    const before = fs.readFileSync(store);
    const table = await run('check');
    expect(table).toMatch(
      /^file +\.\/data\/animal-store\.db\nsqlite version +.+\nschema version +8\nlatest schema version +8\n/,
    );
    expect(table).toMatch(/^rows of pet +2\nNo problems were found\.\n$/m);
    expect(JSON.parse(await run('check', '--json'))).toEqual({
      ok: true,
      file: './data/animal-store.db',
      sqliteVersion: expect.stringMatching(/^3\.\d+\.\d+$/),
      schemaVersion: 8,
      latestSchemaVersion: 8,
      rows: { pet: 2 },
      problems: [],
    });
    expect(fs.readFileSync(store).equals(before)).toBe(true);
  });

  test('beside a running server it includes what is still in the write-ahead log', async () => {
    const server = await startServer();
    const key = await server.firstKey();
    await server.call(key, 'POST', '/v1/pets', { name: 'Tabby', categoryId: 1 });
    const { stdout } = await runCli(['check', '--json'], { folder: server.folder });
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, rows: { pet: 1 } });
  });

  const bad: [string, (file: string) => void, RegExp][] = [
    ['a missing file', (file) => fs.rmSync(file), /^copy\.db does not exist\.$/],
    [
      'garbage',
      (file) => fs.writeFileSync(file, 'No store. '.repeat(1000)),
      /^copy\.db cannot be opened: file is not a database\.$/,
    ],
    ['an empty file', (file) => fs.truncateSync(file), /^copy\.db holds no store yet, .+\.$/],
    [
      'a changed byte in the stored JSON of an animal',
      (file) => overwrite(file, '"name":"Tabby"', '"name":"Tubby"'),
      /^Row 1 of pet has JSON that differs from its other columns\.$/,
    ],
    [
      'a changed byte in the name of an animal',
      (file) => overwrite(file, 'Tabbyavailable{', 'Tubbyavailable{'),
      /^Row 1 of pet has JSON that differs from its other columns\.$/,
    ],
    [
      // In the row's header, 0x17 is the serial type of a text of 5 bytes, 0x16 that of a BLOB.
      'a changed byte that makes the name of an animal a BLOB',
      (file) => overwrite(file, '\x00\x17\t\x1f', '\x00\x16\t\x1f'),
      /^integrity_check: .*pet\.name\.$/,
    ],
    [
      'a changed byte in an index',
      (file) => overwrite(file, '\t\tavailable', '\t\tavaixable'),
      /^integrity_check: row 1 missing from index pet_status_id\.$/m,
    ],
    [
      'many rows that differ',
      (file) => {
        const more =
          "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 30) INSERT INTO pet (name, category_id, status) SELECT 'Rex', i, 'sold' FROM n";
        change(file, more);
        const text = fs.readFileSync(file, 'latin1');
        fs.writeFileSync(file, text.replaceAll('"Rex"', '"Max"'), 'latin1');
      },
      /^(Row \d+ of pet has JSON that differs from its other columns\.\n?){20}$/,
    ],
    [
      'a key without its account',
      (file) =>
        change(
          file,
          `PRAGMA foreign_keys = OFF; INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at)
           VALUES (7, 'x', 'x', zeroblob(32), 'pets:read', 0)`,
        ),
      /^Row 1 of api_key refers to a missing row of account\.$/,
    ],
  ];
  test.each(bad)('exit 1 and its sentence: %s', async (_, spoil, sentence) => {
    const { folder, store, at } = await commandFolder(tabby);
    fs.renameSync(store, at('copy.db'));
    spoil(at('copy.db'));
    const { code, stdout, stderr } = await runCli(['check', 'copy.db', '--json'], { folder });
    const { ok, problems } = JSON.parse(stdout);
    expect([code, ok, problems.join('\n')]).toEqual([1, false, expect.stringMatching(sentence)]);
    expect(stderr.replaceAll('animal-store: ', '')).toBe(`${problems.join('\n')}\n`);
  });
});

describe('backup', { timeout: 60_000 }, () => {
  test('is one file, readable only by its owner, that holds the whole store and opens on a read-only disk', async () => {
    const { run, at, folder } = await commandFolder(tabby, rex);
    expect(await run('backup', 'copy.db')).toBe('Backed up 2 animals to copy.db.\n');
    expect(fs.readdirSync(folder).filter((name) => name.startsWith('copy'))).toEqual(['copy.db']);
    expect(fs.statSync(at('copy.db')).mode & 0o777).toBe(0o600);
    expect(query(at('copy.db'), 'PRAGMA journal_mode')).toEqual([{ journal_mode: 'delete' }]);
    expect(namesIn(at('copy.db'))).toEqual(['Tabby', 'Rex']);
    expect(await run('check', 'copy.db')).toMatch(/\nNo problems were found\.\n$/);
  });

  test('an older schema is backed up without migrating it', async () => {
    const { run, store, at } = await commandFolder(tabby);
    change(store, 'DROP TABLE import; DELETE FROM migration WHERE version = 3; PRAGMA user_version = 2');
    await run('backup', 'copy.db');
    for (const file of [store, at('copy.db')])
      expect(query(file, 'PRAGMA user_version')).toEqual([{ user_version: 2 }]);
  });

  test('an existing file is replaced only with --force', async () => {
    const { run, refused, at, folder } = await commandFolder(tabby);
    fs.writeFileSync(at('copy.db'), 'precious');
    expect(await refused('backup', 'copy.db')).toBe('copy.db exists already: use --force to replace it.');
    expect(fs.readFileSync(at('copy.db'), 'utf8')).toBe('precious');
    await run('backup', 'copy.db', '--force');
    expect(namesIn(at('copy.db'))).toEqual(['Tabby']);
    expect(fs.readdirSync(folder).sort()).toEqual(['copy.db', 'data']);
  });

  test('exit 1: the store itself under any name, a folder, a missing folder, and a missing store', async () => {
    const { run, refused, folder, at, store } = await commandFolder(tabby);
    const before = contentOf(folder);
    fs.linkSync(store, at('alias.db'));
    for (const name of ['data/animal-store.db', 'alias.db'])
      expect(await refused('backup', name, '--force')).toBe(`${name} is the store itself.`);
    fs.rmSync(at('alias.db'));
    expect(await refused('backup', 'data', '--force')).toBe('data is not a file.');
    expect(await refused('backup', 'nowhere/copy.db')).toBe('nowhere does not exist.');
    for (const suffix of ['-shm', '-wal']) fs.rmSync(store + suffix, { force: true });
    expect(contentOf(folder)).toEqual(before);
    fs.rmSync(store);
    expect(await refused('backup', 'copy.db')).toBe('DATABASE_URL: ./data/animal-store.db does not exist.');
    expect(await run('migrate')).toMatch(/^Applied/);
  });

  test('exit 1: a store whose JSON differs from its columns is not backed up', async () => {
    const { refused, folder, store } = await commandFolder(tabby);
    overwrite(store, '"name":"Tabby"', '"name":"Tubby"');
    expect(await refused('backup', 'copy.db')).toBe(
      'The copy of ./data/animal-store.db is not sound: Row 1 of pet has JSON that differs from its other columns.',
    );
    expect(fs.readdirSync(folder)).toEqual(['data']);
  });

  test('exit 1: on a full disk, no file is left behind, wherever the room ends', async ({ skip }) => {
    const { folder, run, at } = await commandFolder({ ...tabby, name: 'x'.repeat(300_000) });
    await run('backup', 'copy.db');
    const kibibytes = Math.ceil(fs.statSync(at('copy.db')).size / 1024);
    const disk = mountSmallDisk(at('small'), 200);
    if (!disk) return skip(noDisk);
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

describe('restore', { timeout: 60_000 }, () => {
  /** A folder with a store of Rex and a backup of Tabby. */
  async function withBackup() {
    const [here, other] = await Promise.all([commandFolder(rex), commandFolder(tabby)]);
    change(other.store, 'PRAGMA journal_mode = DELETE');
    fs.renameSync(other.store, here.at('copy.db'));
    return here;
  }

  test('replaces the store with the backup, and keeps the complete old store next to it', async () => {
    const here = await withBackup();
    fs.chmodSync(here.store, 0o640);
    // Only root may change the owner of a file.
    const owner = process.getuid?.() === 0 ? 1000 : fs.statSync(here.store).uid;
    fs.chownSync(here.store, owner, -1);
    expect(await here.run('restore', 'copy.db')).toMatch(
      /^Restored 1 animal from copy\.db\.\nThe previous store is kept as \.\/data\/animal-store\.db\.\w+\.before-restore\.\n$/,
    );
    const [kept = ''] = keptIn(here);
    expect(fs.readdirSync(path.join(here.folder, 'data')).sort()).toEqual(['animal-store.db', kept]);
    expect(namesIn(path.join(here.folder, 'data', kept))).toEqual(['Rex']);
    expect(namesIn(here.store)).toEqual(['Tabby']);
    expect(fs.statSync(here.store)).toMatchObject({ mode: 0o100640, uid: owner });
    // A second restore does not overwrite the store that the first one kept.
    await here.run('restore', 'copy.db');
    expect(keptIn(here)).toHaveLength(2);
  });

  test('keeps no old store if there was none', async () => {
    const here = await withBackup();
    fs.rmSync(path.join(here.folder, 'data'), { recursive: true });
    expect(await here.run('restore', 'copy.db')).toBe('Restored 1 animal from copy.db.\n');
    expect(namesIn(here.store)).toEqual(['Tabby']);
    expect(query(here.store, 'SELECT name FROM sqlite_sequence')).toEqual([{ name: 'pet' }]);
    for (const suffix of ['-shm', '-wal']) fs.rmSync(here.store + suffix, { force: true });
    expect(fs.readdirSync(path.join(here.folder, 'data'))).toEqual(['animal-store.db']);
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

  test('replaces an empty file', async () => {
    const here = await withBackup();
    fs.truncateSync(here.store);
    await here.run('restore', 'copy.db');
    expect(namesIn(here.store)).toEqual(['Tabby']);
  });

  test('migrates an older schema to this release', async () => {
    const here = await withBackup();
    change(here.at('copy.db'), 'DROP TABLE api_key_usage; DELETE FROM migration WHERE version > 7');
    const { code, stderr } = await runCli(['restore', 'copy.db'], { folder: here.folder });
    expect([code, stderr]).toEqual([0, 'Applied 0008_key_usage.sql.\n']);
    expect(await here.run('migrate')).toBe('The store is up to date.\n');
    expect(namesIn(here.store)).toEqual(['Tabby']);
  });

  test('does not reuse ids that were assigned after the backup', async () => {
    const here = await commandFolder(tabby);
    await here.run('backup', 'copy.db');
    change(
      here.store,
      "INSERT INTO pet (name, category_id, status) VALUES ('Rex', 1, 'sold'), ('Bo', 1, 'sold'); INSERT INTO account (name, created_at) VALUES ('a', 0), ('b', 0)",
    );
    await here.run('restore', 'copy.db');
    fs.writeFileSync(here.at('more.jsonl'), '{"name":"Ida","categoryId":1}\n');
    await here.run('import', 'more.jsonl');
    expect(query(here.store, 'SELECT id, name FROM pet')).toEqual([
      { id: 1, name: 'Tabby' },
      { id: 4, name: 'Ida' },
    ]);
    await here.run('account', 'add', 'c');
    expect(query(here.store, 'SELECT id FROM account')).toEqual([{ id: 3 }]);
  });

  test('revives no session that has ended since the backup, and no one-time link that was used', async () => {
    const here = await commandFolder(tabby);
    const server = await startServer({ folder: here.folder });
    const ada = openFormClient(server.url);
    await ada.post('/account/sign-up', { name: 'ada', password });
    const token = ada.jar.get('session') as string;
    const link = new URL((await here.run('account', 'invite')).trim()).pathname;
    await here.run('backup', 'copy.db');
    await ada.post('/account/sign-out-everywhere');
    expect(await openFormClient(server.url).post(link, { name: 'ben', password })).toMatchObject({ status: 303 });
    expect((await server.end('SIGTERM')).code).toBe(0);

    expect(await here.run('restore', 'copy.db')).toMatch(/^Restored 1 animal from copy\.db\.\nThe previous/);
    const again = await startServer({ folder: here.folder });
    const old = openFormClient(again.url);
    old.jar.set('session', token);
    expect(await old.get('/account')).toMatchObject({
      status: 303,
      headers: { location: '/account/sign-in?done=ended' },
    });
    for (const answer of [await old.get(link), await old.post(link, { name: 'eve', password })])
      expect(answer.status).toBe(404);
    expect(await old.post('/account/sign-in', { name: 'ada', password })).toMatchObject({ status: 303 });
    expect(query(here.store, "SELECT name FROM account WHERE name <> 'first'")).toEqual([{ name: 'ada' }]);
    // The kept store and the backup still have them.
    const [kept = ''] = keptIn(here);
    expect(query(here.at('copy.db'), 'SELECT 1 AS one FROM session')).toHaveLength(1);
    expect(query(path.join(here.folder, 'data', kept), 'SELECT 1 AS one FROM session')).toHaveLength(1);
  });

  test('exit 1 and the store unchanged: a server has it open, even one without any request yet', async () => {
    const here = await withBackup();
    const server = await startServer({ folder: here.folder });
    expect(await here.refused('restore', 'copy.db')).toBe('./data/animal-store.db is in use: stop the server first.');
    const key = await server.firstKey();
    const { json } = await server.call(key, 'POST', '/v1/pets', { name: 'Ida', categoryId: 1 });
    expect(json.id).toBe(2);
    await server.end('SIGTERM');
    expect(namesIn(here.store)).toEqual(['Rex', 'Ida']);
    await here.run('restore', 'copy.db');
    expect(namesIn(here.store)).toEqual(['Tabby']);
  });

  test.each([
    ['a reader', { readonly: true }, 'WAL'],
    ['a writer', {}, 'WAL'],
    ['a reader without a log', { readonly: true }, 'DELETE'],
  ])('exit 1: %s in another program has it open', async (_, options, mode) => {
    const here = await withBackup();
    change(here.store, `PRAGMA journal_mode = ${mode}`);
    const other = new Database(here.store, options);
    onTestFinished(() => void other.close());
    other.exec('BEGIN');
    other.prepare('SELECT * FROM pet').all();
    const exit = await launchCli(['restore', 'copy.db'], { folder: here.folder }).end();
    expect(commandErrorOf(exit)).toMatch(/is in use/);
    expect(fs.readdirSync(path.join(here.folder, 'data')).filter((name) => name.includes('restor'))).toEqual([]);
    expect(other.prepare('SELECT name FROM pet').all()).toEqual([{ name: 'Rex' }]);
  });

  test('the kept store includes what a killed server left in the write-ahead log', async () => {
    const here = await withBackup();
    const server = await startServer({ folder: here.folder });
    await server.call(await server.firstKey(), 'POST', '/v1/pets', { name: 'Ida', categoryId: 1 });
    await server.end('SIGKILL');
    expect(fs.statSync(`${here.store}-wal`).size).toBeGreaterThan(0);
    await here.run('restore', 'copy.db');
    const [kept = ''] = keptIn(here);
    expect(namesIn(path.join(here.folder, 'data', kept))).toEqual(['Rex', 'Ida']);
    expect(namesIn(here.store)).toEqual(['Tabby']);
  });

  const unusable: [string, (file: string) => void, RegExp][] = [
    ['a missing file', (file) => fs.rmSync(file), /^copy\.db does not exist\.$/],
    [
      'garbage',
      (file) => fs.writeFileSync(file, 'No store. '),
      /^copy\.db cannot be opened: file is not a database\.$/,
    ],
  ];
  test.each(unusable)('exit 1 and the store unchanged: %s instead of a backup', async (_, spoil, sentence) => {
    const here = await withBackup();
    spoil(here.at('copy.db'));
    const before = contentOf(here.folder);
    expect(await here.refused('restore', 'copy.db')).toMatch(sentence);
    expect(contentOf(here.folder)).toEqual(before);
  });

  test('exit 1: the store itself, and a full disk without a store', async ({ skip }) => {
    const here = await withBackup();
    expect(await here.refused('restore', 'data/animal-store.db')).toBe('data/animal-store.db is the store itself.');
    fs.rmSync(path.join(here.folder, 'data'), { recursive: true });
    if (!mountSmallDisk(path.join(here.folder, 'data'), 40)) skip(noDisk);
    expect(await here.refused('restore', 'copy.db')).toMatch(/partial-\S+ cannot be written: .*full\.$/);
    expect(fs.readdirSync(path.join(here.folder, 'data'))).toEqual([]);
  });

  const unlockable: [string, (store: string) => void][] = [
    [
      'no database, beside its log',
      (store) => {
        fs.writeFileSync(store, 'No store. '.repeat(1000));
        fs.writeFileSync(`${store}-wal`, 'its log');
      },
    ],
    ['cut short after its header', (store) => fs.truncateSync(store, 100)],
    // Perhaps a server still has both open.
    ['missing, but not its log', (store) => fs.renameSync(store, `${store}-wal`)],
  ];
  test.each(unlockable)('exit 1 and all files unchanged: the store is %s', async (_, spoil) => {
    const here = await withBackup();
    spoil(here.store);
    const before = contentOf(here.folder);
    expect(await here.refused('restore', 'copy.db')).toMatch(
      /^\.\/data\/animal-store\.db cannot be locked \(.+\): make sure that no server is running, then move \.\/data\/animal-store\.db\* elsewhere\.$/,
    );
    expect(contentOf(here.folder)).toEqual(before);
    fs.renameSync(path.join(here.folder, 'data'), here.at('elsewhere'));
    await here.run('restore', 'copy.db');
    expect(namesIn(here.store)).toEqual(['Tabby']);
  });
});
