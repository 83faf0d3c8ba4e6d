/** The commands export and import on PostgreSQL, also beside running servers. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import fc from 'fast-check';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { NewPet } from '../../../src/core/pets.ts';
import { openStore } from '../../../src/store/open.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { startOwn } from '../../support/own-postgres.ts';
import { startPgbouncer } from '../../support/pgbouncer.ts';
import { launchCli, runCli, startServer } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, newDatabase, open, runSql, temporaryFolder, textRows } from '../../support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

const lines = (count: number, id?: (index: number) => number) =>
  Array.from({ length: count }, (_, index) => {
    const kept = id ? `"id":${id(index)},` : '';
    return `{${kept}"name":"pet ${index + 1}","categoryId":${index + 1}}\n`;
  }).join('');

let databaseUrl: string;
let folder: string;

beforeEach(async () => {
  databaseUrl = await newDatabase({ template: 'template_animals' });
  folder = temporaryFolder();
});

const at = (name: string) => path.join(folder, name);
const write = (name: string, text: string) => fs.writeFileSync(at(name), text);
const env = () => ({ DATABASE_URL: databaseUrl });
const runHere = (...args: string[]) => runCli(args, { folder, env: env() });

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runHere(...args);
  expect(code, stderr).toBe(0);
  return stdout;
}

const refused = async (...args: string[]) => commandErrorOf(await runHere(...args));

const rowsOf = () => textRows(databaseUrl, 'SELECT id, name FROM pet ORDER BY id');
const namesIn = async () => (await rowsOf()).map(({ name }) => name);
const countIn = async () => Number((await textRows(databaseUrl, 'SELECT count(*) FROM pet'))[0]?.count);
/** Sessions of commands that have not ended yet. */
const sessionsOfImports = async () => {
  const sessions = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'animal-store'`;
  return Number((await textRows(databaseUrl, sessions))[0]?.count);
};
const expectAll = async (count: number) =>
  expect(await namesIn()).toEqual(Array.from({ length: count }, (_, index) => `pet ${index + 1}`));

describe('export', () => {
  test('writes the same bytes as the export of the same store in SQLite', async () => {
    const file = at('store.db');
    const store = await openStore(`sqlite:${file}`, { now: () => new Date() });
    const names = fc.sample(
      fc.string({ unit: 'binary', minLength: 1 }).filter((text) => text.isWellFormed() && !text.includes('\0')),
      600,
    );
    const statuses = ['available', 'pending', 'sold'] as const;
    await Promise.all(
      [...names, 'x'.repeat(60_000), '\u2028\u007f\r\n",', '\ufeff'].map((name, index) =>
        store.pets.add({
          name,
          categoryId: index % 2 ? 2n ** 63n - 1n : -(2n ** 63n),
          status: statuses[index % 3] as NewPet['status'],
        }),
      ),
    );
    await store.close();
    await run('copy', '--from', `sqlite:${file}`, '--to', databaseUrl);
    for (const options of [[], ['--format', 'csv'], ['--status', 'sold'], ['--status', 'pending', '--format', 'csv']]) {
      const { stdout } = await runCli(['export', ...options], { folder, env: { DATABASE_URL: `sqlite:${file}` } });
      expect(await run('export', ...options)).toBe(stdout);
      expect(stdout.length).toBeGreaterThan(1000);
    }
    // To a file, which an import with its ids reproduces, except for names of an earlier release that are too long now.
    await runSql(databaseUrl, 'DELETE FROM pet WHERE length(name) > 1000');
    await run('export', 'pets.csv');
    const bytes = fs.readFileSync(at('pets.csv'));
    databaseUrl = await newDatabase({ template: 'template_animals' });
    await run('import', 'pets.csv', '--keep-ids');
    await run('export', 'pets.csv', '--force');
    expect(fs.readFileSync(at('pets.csv')).equals(bytes)).toBe(true);
  });

  test('lists every animal up to the last one in it while servers add animals', async () => {
    write('many.ndjson', lines(3000));
    await run('import', 'many.ndjson');
    const stores = await Promise.all([open(databaseUrl), open(databaseUrl)]);
    let exporting = true;
    const adding = stores.map(async ({ pets }) => {
      while (exporting) await pets.add(biscuit);
    });
    const exported = await run('export');
    exporting = false;
    await Promise.all(adding);
    const ids = exported
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line).id);
    expect(ids.length).toBeGreaterThanOrEqual(3000);
    expect(ids).toEqual(ids.map((_, index) => index + 1));
  });

  test('exit 1 and one sentence: no database, no schema, and a lost connection; no file remains', async () => {
    await clientOf(databaseUrl)`INSERT INTO pet SELECT i, 'pet', 1, 'sold' FROM generate_series(1, 50000) AS i`;
    const proxy = await startProxy(databaseUrl);
    const own = databaseUrl;
    databaseUrl = `${own}_missing`;
    expect(await refused('export', 'pets.csv')).toMatch(
      /^DATABASE_URL: postgres:.* cannot be opened: .*does not exist\.$/,
    );
    databaseUrl = await newDatabase();
    expect(await refused('export', 'pets.csv')).toMatch(/has schema version 0.*run animal-store migrate\.$/);
    expect(await textRows(databaseUrl, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)).toEqual([]);
    databaseUrl = proxy.through(own);
    const exporting = runHere('export', 'pets.csv');
    await vi.waitUntil(() => proxy.seen().includes('ORDER BY id LIMIT'), { interval: 0 });
    proxy.cutNextAnswer();
    expect(commandErrorOf(await exporting)).toMatch(/^The store cannot answer: .*[Cc]onnection.*\.$/);
    expect(fs.readdirSync(folder)).toEqual([]);
  });
});

describe('import', () => {
  test('ends with one sentence if a lock keeps it from reading its own table', async () => {
    write('pets.ndjson', lines(1));
    const other = clientOf(databaseUrl);
    const [{ name }] = await other<[{ name: string }]>`SELECT current_database() AS name`;
    await other.unsafe(`ALTER DATABASE ${name} SET lock_timeout = 100`);
    await other.begin(async (transaction) => {
      await transaction`LOCK TABLE import`;
      // A process of its own: an open connection would keep it running.
      expect(commandErrorOf(await launchCli(['import', 'pets.ndjson'], { folder, env: env() }).end())).toBe(
        'The store cannot answer: canceling statement due to lock timeout.',
      );
    });
  });

  test('creates the tables if there are none, and adds every animal with a new id', async () => {
    databaseUrl = await newDatabase();
    write(
      'pets.csv',
      '\ufeffcategoryId,id,name,status\n9007199254740993,77,"Ida\r\n""😺""",sold\n-9223372036854775808,,Bo,\n',
    );
    expect(await run('import', 'pets.csv')).toBe('Imported 2 animals.\n');
    expect(await textRows(databaseUrl, 'SELECT id, name, category_id, status FROM pet ORDER BY id')).toEqual([
      { id: '1', name: 'Ida\r\n"😺"', category_id: '9007199254740993', status: 'sold' },
      { id: '2', name: 'Bo', category_id: '-9223372036854775808', status: 'available' },
    ]);
  });

  test('checks every line first: one bad line at the end, and nothing is imported', async () => {
    write('pets.ndjson', `${lines(2500)}{}\n`);
    expect(await refused('import', 'pets.ndjson')).toBe(
      'line 2501: name is required; categoryId is required.\n1 of 2501 lines is bad, so nothing was imported: fix it, or use --skip-bad.',
    );
    expect(await countIn()).toBe(0);
    expect(await run('import', 'pets.ndjson', '--skip-bad')).toBe('Imported 2500 animals, skipped 1 line.\n');
    await expectAll(2500);
  });

  test('the same content is imported once, under any file name; --again imports it once more', async () => {
    write('pets.ndjson', lines(3));
    await run('import', 'pets.ndjson');
    fs.renameSync(at('pets.ndjson'), at('renamed.ndjson'));
    expect(await run('import', 'renamed.ndjson')).toMatch(
      /^renamed\.ndjson was imported already, on \d{4}-.+Z: 3 animals\. Use --again to import it once more\.\n$/,
    );
    expect(await run('import', 'renamed.ndjson', '--again')).toBe('Imported 3 animals.\n');
    expect(await run('import', 'renamed.ndjson')).toMatch(/was imported already/);
    expect(await countIn()).toBe(6);
  });

  test('after each of several kills it continues after the last committed line: each line is imported once', async () => {
    write('pets.ndjson', lines(20_000));
    for (const [round, atLeast] of [1, 8000].entries()) {
      const command = launchCli(['import', 'pets.ndjson'], { folder, env: env() });
      while ((await countIn()) < atLeast);
      const { stderr } = await command.end('SIGKILL');
      if (round > 0) expect(stderr).toMatch(/^Continuing after line \d+000\.\n$/);
      // The database may still be adding the batch of the process that is gone.
      await expect.poll(sessionsOfImports, { timeout: 30_000 }).toBe(0);
      expect((await countIn()) % 1000).toBe(0);
    }
    expect(await countIn()).toBeLessThan(20_000);
    expect(await run('import', 'pets.ndjson')).toBe('Imported 20000 animals.\n');
    await expectAll(20_000);
  }, 60_000);

  const stopping = 'Stopping after this batch; press Ctrl-C again to end at once.\n';
  const interruptedAfter = (count: number) =>
    `${stopping}animal-store: Interrupted: ${count} animals imported, up to line ${count}. Repeat the command to continue from there.\n`;

  test('SIGINT: ends after the batch, prints how far it came, and continues from there', async () => {
    write('pets.ndjson', lines(12_000));
    const command = launchCli(['import', 'pets.ndjson'], { folder, env: env() });
    while ((await countIn()) === 0);
    const { code, stderr } = await command.end('SIGINT');
    expect([code, stderr]).toEqual([1, interruptedAfter(await countIn())]);
    await run('import', 'pets.ndjson');
    await expectAll(12_000);
  });

  describe('while PostgreSQL is frozen', () => {
    /** An import that waits for a frozen server. */
    async function startFrozen() {
      const server = await startOwn([], () => undefined);
      databaseUrl = server.url('postgres');
      expect(await run('migrate')).toMatch(/^Applied /);
      write('pets.ndjson', lines(60_000));
      const command = launchCli(['import', 'pets.ndjson'], { folder, env: env() });
      while ((await countIn()) === 0);
      server.freeze();
      return { server, command };
    }

    test('it says what it waits for, and the first Ctrl-C what happens next', async () => {
      const { server, command } = await startFrozen();
      // npm passes on the SIGINT that the terminal has already sent: the second does not count.
      for (let signals = 2; signals > 0; signals--) process.kill(command.pid, 'SIGINT');
      await command.seen('stderr', new RegExp(stopping));
      await command.seen('stderr', /^The store has not answered for 5 s: still waiting for it\.\n$/m);
      server.thaw();
      const { code, stderr } = await command.end();
      expect(code).toBe(1);
      expect(stderr.replace(/^The store has not .+\n/m, '')).toBe(interruptedAfter(await countIn()));
    });

    test('a second Ctrl-C ends it at once, and the same command continues', async () => {
      const { server, command } = await startFrozen();
      process.kill(command.pid, 'SIGINT');
      await command.seen('stderr', new RegExp(stopping));
      await setTimeout(1500);
      expect(await command.end('SIGINT')).toMatchObject({ code: null, stderr: stopping });
      server.thaw();
      expect(await run('import', 'pets.ndjson')).toBe('Imported 60000 animals.\n');
      await expectAll(60_000);
    });
  });

  test('a lost connection is reported in one sentence, and the same command continues', async () => {
    write('pets.ndjson', lines(5000));
    const proxy = await startProxy(databaseUrl);
    const through = { folder, env: { DATABASE_URL: proxy.through(databaseUrl) } };
    const importing = runCli(['import', 'pets.ndjson'], through);
    await vi.waitUntil(() => proxy.seen().includes('pet 1500'), { interval: 0 });
    proxy.cutNextAnswer();
    expect(commandErrorOf(await importing)).toMatch(
      /^The store cannot be written \(.*[Cc]onnection.*\): at least \d+ animals imported, up to line \d+\. Repeat the command to continue from there\.$/,
    );
    await run('import', 'pets.ndjson');
    await expectAll(5000);
  });

  test('two processes at once do not import the same file twice', async () => {
    write('pets.ndjson', lines(10_000));
    const start = () => launchCli(['import', 'pets.ndjson'], { folder, env: env() }).end();
    for (const { code, stdout, stderr } of await Promise.all([start(), start()]))
      if (code === 0) expect(stdout).toMatch(/Imported 10000 animals|imported already/);
      else
        expect(stderr).toMatch(
          /^(Continuing after line \d+\.\n)?animal-store: Another process is importing the same file\.\n$/,
        );
    await run('import', 'pets.ndjson');
    await expectAll(10_000);
  });

  test.for(['read committed', 'repeatable read', 'serializable'])(
    'beside servers that add animals, no walk over the pages skips one, with %s transactions',
    async (isolation) => {
      const name = new URL(databaseUrl).pathname.slice(1);
      await clientOf(databaseUrl).unsafe(`ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`);
      write('pets.ndjson', lines(4000));
      const [walker, ...stores] = await Promise.all([open(databaseUrl), open(databaseUrl), open(databaseUrl)]);
      let [importing, walking, added] = [true, true, 0];
      const adds = stores.map(async ({ pets }) => {
        for (; importing; added++) await pets.add(biscuit);
      });
      const seen: number[] = [];
      const walk = (async () => {
        for (let more = true; more; ) {
          // Before the page: the last one is read after everything was added.
          more = walking;
          const { pets, next } = await walker.pets.list({ limit: 100, after: BigInt(seen.at(-1) ?? 0) });
          seen.push(...pets.map((pet) => JSON.parse(pet).id));
          more ||= next !== undefined;
        }
      })();
      await run('import', 'pets.ndjson');
      importing = false;
      await Promise.all(adds);
      walking = false;
      await walk;
      expect(added).toBeGreaterThan(0);
      expect(seen).toEqual(Array.from({ length: 4000 + added }, (_, index) => index + 1));
      expect((await namesIn()).filter((pet) => pet !== 'Biscuit')).toEqual(
        Array.from({ length: 4000 }, (_, index) => `pet ${index + 1}`),
      );
    },
  );

  test('waits while a server holds the lock under which ids are given', async () => {
    write('pets.ndjson', lines(3));
    const sql = clientOf(databaseUrl);
    const waiting = async () =>
      (await sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).length;
    let importing: Promise<string> | undefined;
    await clientOf(databaseUrl).begin(async (transaction) => {
      await transaction`SELECT FROM pet_id FOR UPDATE`;
      importing = run('import', 'pets.ndjson');
      await vi.waitUntil(waiting, { timeout: 4000, interval: 5 });
    });
    expect(await importing).toBe('Imported 3 animals.\n');
  });

  test('every request to a server beside it gets a response', async () => {
    write('pets.ndjson', lines(5000));
    const server = await startServer({ folder, env: env() });
    const key = await server.firstKey();
    const command = launchCli(['import', 'pets.ndjson'], { folder, env: env() });
    const statuses: number[] = [];
    let ended = false;
    const client = async () => {
      while (!ended) statuses.push((await server.call(key, 'POST', '/v1/pets', { name: 'x', categoryId: 1 })).status);
    };
    const clients = [client(), client()];
    expect((await command.end()).code).toBe(0);
    ended = true;
    await Promise.all(clients);
    expect(statuses.filter((status) => status !== 201)).toEqual([]);
    expect(await countIn()).toBe(5000 + statuses.length);
  });
});

describe('import --keep-ids', () => {
  test('keeps the ids in any order; ids above them are new, also after the animals are deleted', async () => {
    await (await open(databaseUrl)).pets.add(biscuit);
    write('kept.csv', 'id,name,categoryId\n900,Rex,1\n4,Bo,1\n');
    await run('import', 'kept.csv', '--keep-ids');
    await clientOf(databaseUrl)`DELETE FROM pet WHERE id = 900`;
    write('new.csv', 'id,name,categoryId\n900,Ida,1\n');
    await run('import', 'new.csv');
    expect(await rowsOf()).toEqual([
      { id: '1', name: 'Biscuit' },
      { id: '4', name: 'Bo' },
      { id: '901', name: 'Ida' },
    ]);
  });

  test.for([false, true])(
    'exit 1, and nothing is imported: an id that is missing, invalid, taken, or used twice; through a pooler: %s',
    async (pooled, { skip }) => {
      await (await open(databaseUrl)).pets.add(biscuit);
      const own = databaseUrl;
      if (pooled) {
        const pooler = await startPgbouncer(databaseUrl, 2).catch(() => undefined);
        if (pooler === undefined) return skip('there is no PgBouncer');
        databaseUrl = `${pooler}?prepare=false`;
      }
      const ids = ['"id":2,', '', '"id":0,', '"id":9007199254740992,', '"id":1,', '"id":2,', '"id":null,'];
      const bad = ids.map((id) => `{${id}"name":"x","categoryId":1}\n`).join('');
      write(
        'pets.ndjson',
        `${bad}${lines(1500, (index) => index + 10)}{"id":3,"name":"y","categoryId":1}\n${'{"id":1509,"name":"z","categoryId":1}\n'}`,
      );
      const outOfRange = (line: number) =>
        expect.stringMatching(`^line ${line}: id must be an integer from 1 to 9007199254740991`);
      expect((await refused('import', 'pets.ndjson', '--keep-ids')).split('\n')).toEqual([
        'line 2: id is required.',
        outOfRange(3),
        outOfRange(4),
        'line 5: id 1 exists already.',
        'line 6: id 2 is on line 1 already.',
        outOfRange(7),
        'line 1509: id 1509 is on line 1507 already.',
        '7 of 1509 lines are bad, so nothing was imported: fix them, or use --skip-bad.',
      ]);
      expect(await textRows(own, 'SELECT count(*) FROM pet')).toEqual([{ count: '1' }]);
      expect(await run('import', 'pets.ndjson', '--keep-ids', '--skip-bad')).toBe(
        'Imported 1502 animals, skipped 7 lines.\n',
      );
      expect(await textRows(own, 'SELECT count(*), max(id), min(id) FROM pet')).toEqual([
        { count: '1503', max: '1509', min: '1' },
      ]);
    },
  );

  test('ids cost two statements per 1,000 lines, not one per line', async () => {
    write(
      'pets.ndjson',
      lines(5000, (index) => 5000 - index),
    );
    const proxy = await startProxy(databaseUrl);
    await runCli(['import', 'pets.ndjson', '--keep-ids'], {
      folder,
      env: { DATABASE_URL: proxy.through(databaseUrl) },
    });
    expect(await countIn()).toBe(5000);
    const count = (text: string) => proxy.seen().split(text).length - 1;
    expect([count('INSERT INTO given'), count('LEFT JOIN given')]).toEqual([6, 6]);
  });

  test('exit 1: an id is taken during the import, so its batch is not imported', async () => {
    write(
      'pets.ndjson',
      lines(20_000, (index) => index + 1),
    );
    const command = launchCli(['import', 'pets.ndjson', '--keep-ids'], { folder, env: env() });
    while ((await countIn()) === 0);
    await clientOf(databaseUrl)`INSERT INTO pet VALUES (19500, 'first', 1, 'sold')`;
    expect(commandErrorOf(await command.end())).toBe(
      'Line 19500: id 19500 was taken during the import: 19000 animals imported, up to line 19000.',
    );
    expect(await countIn()).toBe(19_001);
  });
});

test('backup and restore refuse PostgreSQL and name what to use instead', async () => {
  const sentence =
    'DATABASE_URL names PostgreSQL: use its own tools, such as pg_dump, as docs/operations.md describes.';
  expect(await refused('backup', 'animals.db')).toBe(sentence);
  expect(await refused('restore', 'animals.db')).toBe(sentence);
});
