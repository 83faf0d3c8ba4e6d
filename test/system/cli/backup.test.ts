/** The commands check, backup and restore. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { sqliteFile } from '../../../src/store/open.ts';
import { backupStore } from '../../../src/store/sqlite/backup.ts';
import { restoreStore } from '../../../src/store/sqlite/restore.ts';
import { prepareStore } from '../../../src/store/sqlite/store-file.ts';
import { password, redirect } from '../../support/account-pages.ts';
import { change, commandErrorOf, commandFolder, contentsOf, namesIn, query, useStore } from '../../support/commands.ts';
import { openFormClient } from '../../support/form-client.ts';
import { asNobody, needNobody } from '../../support/nobody.ts';
import { openElsewhere } from '../../support/other-program.ts';
import { launchCli, runCli, startServer } from '../../support/process.ts';
import { mountSmallDisk } from '../../support/small-disk.ts';
import { makeOlder } from '../../support/store-file.ts';

const noWarning = (sentence: string) => expect.fail(sentence);

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
      ok: true,
      file: './data/animal-store.db',
      rows: { pet: 2 },
      problems: [],
      sqliteVersion: expect.any(String),
      schemaVersion: 9,
      latestSchemaVersion: 9,
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

/** A backup whose name has been used before: what SQLite keeps beside it, and the programs that have it open. */
describe('a file that SQLite or a program knows', () => {
  /** A folder with a store of Tabby and Rex, and the file n.db: an older backup, of Ida, which some program has used as its store. */
  async function withOld() {
    const [here, other] = await Promise.all([commandFolder(tabby, rex), commandFolder({ ...tabby, name: 'Ida' })]);
    await other.run('backup', here.at('n.db'));
    change(here.at('n.db'), 'PRAGMA journal_mode = WAL');
    return { ...here, old: here.at('n.db') };
  }

  /** The new file is what the command said, now and after a restore. */
  async function expectNew({ run, store, old, folder }: Awaited<ReturnType<typeof withOld>>) {
    expect(fs.readdirSync(folder).filter((name) => name.startsWith('n.db'))).toEqual(['n.db']);
    expect(namesIn(old)).toEqual(['Tabby', 'Rex']);
    expect(await run('check', 'n.db')).toMatch(/rows of pet +2\nNo problems were found\.\n$/);
    await run('restore', 'n.db');
    expect(namesIn(store)).toEqual(['Tabby', 'Rex']);
  }

  const insert = "INSERT INTO pet (name, category_id, status) VALUES ('Foreign', 1, 'sold')";

  test.each([
    ['-wal', 'something'],
    ['-wal', ''],
    ['-shm', ''],
    ['-journal', 'something'],
    ['-journal', ''],
  ])(
    'exit 1 and all files unchanged: %s that contains %j lies beside the target, whether it exists or not',
    async (suffix, text) => {
      const { folder, old, run, refused } = await withOld();
      // Whoever reads the store leaves an empty log there.
      const contents = () => Object.entries(contentsOf(folder)).filter(([name]) => name.startsWith(old));
      fs.writeFileSync(old + suffix, text);
      fs.symlinkSync('n.db', `${folder}/link`);
      for (const lose of [() => {}, () => fs.rmSync(old)]) {
        lose();
        const before = contents();
        for (const [command = '', ...args] of [
          ['backup', 'n.db'],
          ['export', 'n.db'],
          ['backup', 'link'],
        ])
          expect(await refused(command, ...args, '--force')).toMatch(
            new RegExp(
              `^SQLite would read what lies beside (\\S*n\\.db) as .+: \\1${suffix}\\. Close .+, run rm \\1${suffix} and repeat`,
            ),
          );
        expect(contents()).toEqual(before);
      }
      // As the sentence says.
      fs.rmSync(old + suffix);
      expect(await run('backup', 'n.db')).toBe('Backed up 2 animals to n.db.\n');
    },
  );

  test.each(['BEGIN; SELECT * FROM pet', 'BEGIN IMMEDIATE'])(
    'exit 1: a program is in a transaction, without a log, perhaps under another name: %s',
    async (begin) => {
      const here = await withOld();
      change(here.old, 'PRAGMA journal_mode = DELETE');
      fs.linkSync(here.old, here.at('N.DB'));
      const { run } = await openElsewhere(here.old);
      for (const sql of begin.split('; ')) await run(sql);
      // As a file system that folds case has it.
      for (const name of ['n.db', 'N.DB'])
        for (const command of ['backup', 'export'])
          expect(await here.refused(command, '--force', name)).toBe(
            `${name} is in use: close the program that has it open.`,
          );
      await run('COMMIT');
      await here.run('backup', '--force', 'n.db');
      await expectNew(here);
    },
  );

  test('exit 1: a file that its user may not write cannot be locked', async (context) => {
    needNobody(context);
    const { folder, old } = await withOld();
    for (const name of ['', ...fs.readdirSync(folder, { recursive: true }).map(String)])
      fs.chownSync(`${folder}/${name}`, 65534, 65534);
    fs.chmodSync(old, 0o444);
    const exit = await launchCli(['backup', '--force', 'n.db'], { folder, under: asNobody }).end();
    expect(commandErrorOf(exit)).toBe(
      "n.db cannot be locked (EACCES: permission denied, access 'n.db'): make sure that no program has it open, then run rm n.db and repeat the command.",
    );
  });

  test.each([
    [insert, 'SQLITE_READONLY_DBMOVED'],
    ['SELECT name FROM pet', ['Ida']],
    ['PRAGMA journal_mode = WAL', 'SQLITE_READONLY_DBMOVED'],
  ])(
    'a program that has opened the old file, and first runs %j after the backup, changes nothing',
    async (first, outcome) => {
      const here = await withOld();
      const { run } = await openElsewhere(here.old);
      await here.run('backup', '--force', 'n.db');
      expect(await run(first)).toEqual(outcome);
      expect(await run(insert)).toBe('SQLITE_READONLY_DBMOVED');
      expect(fs.existsSync(`${here.old}-wal`)).toBe(false);
      expect(await run('close')).toEqual([]);
      await expectNew(here);
    },
  );

  test('a file that is no database, or a damaged one, is replaced with --force', async () => {
    for (const spoil of [
      (file: string) => fs.writeFileSync(file, 'garbage'),
      (file: string) => fs.truncateSync(file),
      (file: string) => fs.truncateSync(file, 512),
      (file: string) => fs.truncateSync(file, 6000),
      (file: string) => fs.writeFileSync(file, fs.readFileSync(file).fill(0xa5, 16, 3100)),
    ]) {
      const here = await withOld();
      spoil(here.old);
      expect(await here.run('backup', '--force', 'n.db')).toBe('Backed up 2 animals to n.db.\n');
      await expectNew(here);
    }
    const { run, at } = await withOld();
    await run('export', '--force', 'n.db');
    expect(fs.readFileSync(at('n.db'), 'utf8')).toMatch(/^\{"id":1,"name":"Tabby",.+\n.+\n$/);
    await run('backup', '--force', 'n.db');
    expect(namesIn(at('n.db'))).toEqual(['Tabby', 'Rex']);
  });

  test('exit 1: names that SQLite uses beside another file, which it deletes', async () => {
    const { refused, folder } = await withOld();
    const before = contentsOf(folder);
    for (const [command, suffix] of [
      ['backup', '-wal'],
      ['backup', '-journal'],
      ['export', '-shm'],
    ] as const)
      expect(await refused(command, `x.db${suffix}`)).toMatch(new RegExp(`^x\\.db${suffix} ends in ${suffix}, `));
    expect(contentsOf(folder)).toEqual(before);
  });

  test('a log that was put beside a backup, or left there, is never applied to it', async () => {
    const [here, log] = [await withOld(), await foreignLog()];
    // As a program does that has opened a file which was then deleted.
    const { run } = await openElsewhere(here.old);
    fs.rmSync(here.old);
    await here.run('backup', 'n.db');
    await run(insert);
    const sentence =
      /^n\.db is not in WAL mode, so n\.db-wal belongs to another file, .+: move n\.db-wal elsewhere, and delete n\.db-shm\.$/;
    const copying = ['copy', '--from', 'sqlite:n.db', '--to', 'postgres://127.0.0.1:1/none'];
    for (const args of [['check', 'n.db'], ['restore', 'n.db'], copying]) {
      const { code, stderr } = await runCli(args, { folder: here.folder });
      expect([code, stderr.replace(/^animal-store: (DATABASE_URL: )?/, '').trimEnd()]).toEqual([
        1,
        expect.stringMatching(sentence),
      ]);
    }
    await run('close');
    fs.rmSync(`${here.old}-shm`);
    fs.renameSync(`${here.old}-wal`, here.at('elsewhere'));
    await expectNew(here);
    // The store as well, as it was restored by an earlier release.
    fs.writeFileSync(`${here.store}-wal`, log);
    for (const command of ['migrate', 'check', 'restore'])
      expect(await here.refused(command, ...(command === 'restore' ? ['n.db'] : []))).toContain('is not in WAL mode');
    fs.rmSync(`${here.store}-wal`);
    await here.run('migrate');
    expect(namesIn(here.store)).toEqual(['Tabby', 'Rex']);
  });

  test('a program that has opened the old store, and first writes after the restore, changes nothing', async () => {
    const here = await withOld();
    const { run } = await openElsewhere(here.store);
    await here.run('restore', 'n.db');
    expect(await run(insert)).toBe('SQLITE_READONLY_DBMOVED');
    await run('close');
    expect(namesIn(here.store)).toEqual(['Ida']);
  });

  /** Backs up to n.db in this process, with a source that may do something meanwhile. */
  const backUp = ({ store, old }: Awaited<ReturnType<typeof withOld>>) => {
    const source = new Database(store, { readonly: true });
    return backupStore(source, old, noWarning).finally(() => source.close());
  };
  /** A log of another store, as it was left by a program that was killed. */
  async function foreignLog() {
    const { old } = await withOld();
    const { run, kill } = await openElsewhere(old);
    await run(insert);
    await kill();
    return fs.readFileSync(`${old}-wal`);
  }

  test('what comes to lie there, or is replaced, while the copy is made is not written over', async () => {
    const log = await foreignLog();
    for (const [meddle, sentence] of [
      [(file: string) => fs.writeFileSync(`${file}-wal`, log), 'what lies beside'],
      [(file: string) => fs.renameSync(file, `${file}.moved`), 'was created or replaced meanwhile'],
      [
        (file: string) => [fs.renameSync(file, `${file}.moved`), fs.writeFileSync(file, 'new')],
        'was created or replaced',
      ],
    ] as const) {
      const here = await withOld();
      const backup = expect(backUp(here)).rejects.toThrow(sentence);
      meddle(here.old);
      const files = () => fs.readdirSync(here.folder).map((name) => [name, fs.statSync(here.at(name)).ino]);
      const before = files().filter(([name]) => !String(name).includes('partial'));
      await backup;
      expect(files()).toEqual(before);
    }
    const here = await withOld();
    fs.rmSync(here.old);
    const backup = expect(backUp(here)).rejects.toThrow('n.db was created or replaced meanwhile');
    fs.writeFileSync(here.old, 'of another command');
    await backup;
    expect(fs.readFileSync(here.old, 'utf8')).toBe('of another command');
  });

  test.each<[string, (file: string, log: Buffer) => void, string]>([
    ['a log', (file, log) => fs.writeFileSync(`${file}-wal`, log), 'as a part of the new file'],
    [
      'another store',
      (file) => fs.copyFileSync(`${path.dirname(file)}/other.db`, file),
      'has another number of animals: 0.',
    ],
    ['garbage', (file) => fs.writeFileSync(file, 'garbage'), 'was written, but cannot be read: '],
  ])('the file is looked at under its name, as its readers do: %s', async (_, meddle, sentence) => {
    const [here, log] = [await withOld(), await foreignLog()];
    prepareStore(here.at('other.db'), { now: () => new Date() });
    fs.copyFileSync(here.old, here.at('before.db'));
    const rename = fs.renameSync;
    const renamed = vi.spyOn(fs, 'renameSync').mockImplementation((from, to) => {
      rename(from, to);
      meddle(String(to), log);
    });
    onTestFinished(() => renamed.mockRestore());
    await expect(backUp(here)).rejects.toThrow(sentence);
    fs.copyFileSync(here.at('other.db'), here.at('data/other.db'));
    const restored = restoreStore(here.at('before.db'), here.store, () => new Date(), noWarning);
    await expect(restored).rejects.toThrow(sentence);
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

  test.for(['-shm', '-wal', '-journal'])(
    'is refused beside an empty %s, and the store gets no second name',
    async (suffix) => {
      const { store, refused, inData } = await withBackup();
      change(store, 'PRAGMA journal_mode = DELETE');
      fs.writeFileSync(store + suffix, '');
      expect(await refused('restore', 'copy.db')).toContain('SQLite would read what lies beside');
      expect([inData(), namesIn(store)]).toEqual([['animal-store.db', `animal-store.db${suffix}`], ['Rex']]);
    },
  );

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
    const now = () => {
      fs.writeFileSync(file, 'of a server');
      return new Date();
    };
    const restoring = restoreStore(store, file, now, noWarning);
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
