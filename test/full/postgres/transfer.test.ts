/** The commands export and import on PostgreSQL, also beside running servers. */
import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { NewPet } from '../../../src/core/pets.ts';
import { openStore } from '../../../src/store/open.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { launchCli, runCli } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, newDatabase, open, temporaryFolder, textRows } from '../../support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

const lines = (count: number) =>
  Array.from({ length: count }, (_, index) => `{"name":"pet ${index + 1}","categoryId":${index + 1}}\n`).join('');

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
      [...names, '\u2028\u007f\r\n",', '\ufeff'].map((name, index) =>
        store.pets.add({
          name,
          categoryId: index % 2 ? 2n ** 63n - 1n : -(2n ** 63n),
          status: statuses[index % 3] as NewPet['status'],
        }),
      ),
    );
    await store.close();
    await run('copy', '--from', `sqlite:${file}`, '--to', databaseUrl);
    for (const options of [[], ['--status', 'sold']]) {
      const { stdout } = await runCli(['export', ...options], { folder, env: { DATABASE_URL: `sqlite:${file}` } });
      expect(await run('export', ...options)).toBe(stdout);
      expect(stdout.length).toBeGreaterThan(1000);
    }
    // To a file, which an import reproduces in an empty store.
    await run('export', 'pets.jsonl');
    const bytes = fs.readFileSync(at('pets.jsonl'));
    databaseUrl = await newDatabase({ template: 'template_animals' });
    await run('import', 'pets.jsonl');
    await run('export', 'pets.jsonl', '--force');
    expect(fs.readFileSync(at('pets.jsonl')).equals(bytes)).toBe(true);
  });

  test('exit 1 and one sentence: no database, no schema, and a database that hangs; no file remains', async () => {
    await clientOf(databaseUrl)`INSERT INTO pet SELECT i, 'pet', 1, 'sold' FROM generate_series(1, 50000) AS i`;
    const proxy = await startProxy(databaseUrl);
    const own = databaseUrl;
    databaseUrl = `${own}_missing`;
    expect(await refused('export', 'pets.jsonl')).toMatch(
      /^DATABASE_URL: postgres:.* cannot be opened: .*does not exist\.$/,
    );
    databaseUrl = await newDatabase();
    expect(await refused('export', 'pets.jsonl')).toMatch(/has schema version 0.*run animal-store migrate\.$/);
    expect(await textRows(databaseUrl, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)).toEqual([]);
    databaseUrl = proxy.through(own);
    const exporting = runHere('export', 'pets.jsonl');
    await vi.waitUntil(() => proxy.seen().includes('FROM pet WHERE id >'), { interval: 0 });
    proxy.silence();
    expect(commandErrorOf(await exporting)).toBe('The store cannot answer: the database did not answer in time.');
    expect(fs.readdirSync(folder)).toEqual([]);
  });
});

describe('import', () => {
  test('after each of several kills it adds what is missing, and nothing twice', async () => {
    write('pets.jsonl', lines(20_000));
    for (const atLeast of [1, 8000]) {
      const command = launchCli(['import', 'pets.jsonl'], { folder, env: env() });
      while ((await countIn()) < atLeast);
      await command.end('SIGKILL');
      // The database may still be adding the batch of the process that is gone.
      await expect.poll(sessionsOfImports, { timeout: 30_000 }).toBe(0);
    }
    const before = await countIn();
    expect(before).toBeLessThan(20_000);
    expect(await run('import', 'pets.jsonl')).toBe(`Imported ${20_000 - before} animals; already there: ${before}.\n`);
    await expectAll(20_000);
  }, 60_000);

  test('a COMMIT whose answer is lost: one sentence, and each line is added once when it is repeated', async () => {
    write('pets.jsonl', lines(5000));
    const proxy = await startProxy(databaseUrl);
    const through = { folder, env: { DATABASE_URL: proxy.through(databaseUrl) } };
    const importing = runCli(['import', 'pets.jsonl'], through);
    await vi.waitUntil(() => proxy.seen().includes('pet 1500'), { interval: 0 });
    proxy.cutNextAnswer();
    const [, known] = /at least (\d+) animals added/.exec(commandErrorOf(await importing)) ?? [];
    const before = await countIn();
    expect(before).toBeGreaterThan(Number(known));
    expect(await run('import', 'pets.jsonl')).toBe(`Imported ${5000 - before} animals; already there: ${before}.\n`);
    await expectAll(5000);
  });

  test('two processes at once do not add the same line twice', async () => {
    write('pets.jsonl', lines(10_000));
    const start = () => launchCli(['import', 'pets.jsonl'], { folder, env: env() }).end();
    const exits = await Promise.all([start(), start()]);
    const counts = exits.map(({ stdout }) => (stdout.match(/\d+/g) ?? []).map(Number));
    expect(counts.map(([added = 0, present = 0]) => added + present)).toEqual([10_000, 10_000]);
    expect(new Set(await namesIn()).size).toBe(10_000);
    expect(await countIn()).toBe(10_000);
  });

  test.for(['serializable'])(
    'beside servers that add animals, no walk over the pages skips one, with %s transactions',
    async (isolation) => {
      const name = new URL(databaseUrl).pathname.slice(1);
      await clientOf(databaseUrl).unsafe(`ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`);
      write('pets.jsonl', lines(4000));
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
      await run('import', 'pets.jsonl');
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
});

test('backup and restore refuse PostgreSQL and name what to use instead', async () => {
  const sentence = 'DATABASE_URL names PostgreSQL: use its own tools, such as pg_dump, as docs/scaling.md describes.';
  expect(await refused('backup', 'animals.db')).toBe(sentence);
  expect(await refused('restore', 'animals.db')).toBe(sentence);
});
