/** The commands export and import on PostgreSQL, also beside running servers. */
import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { commandErrorOf } from '../../support/commands.ts';
import { launchCli, runCli } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, newDatabase, open, temporaryFolder, textRows } from '../../support/store.ts';

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

const namesIn = async () => (await textRows(databaseUrl, 'SELECT name FROM pet ORDER BY id')).map(({ name }) => name);
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
    const file = `sqlite:${at('store.db')}`;
    const store = await open(file);
    const names = fc.sample(
      fc.string({ unit: 'binary', minLength: 1 }).filter((text) => text.isWellFormed() && !text.includes('\0')),
      600,
    );
    await Promise.all(
      [...names, '\u2028\u007f\r\n",', '\ufeff'].map((name, index) =>
        store.pets.add({ name, categoryId: 2n ** 63n - 1n, status: index % 2 ? 'sold' : 'pending' }),
      ),
    );
    await run('copy', '--from', file, '--to', databaseUrl);
    for (const options of [[], ['--status', 'sold']]) {
      const { stdout } = await runCli(['export', ...options], { folder, env: { DATABASE_URL: file } });
      expect(await run('export', ...options)).toBe(stdout);
      expect(stdout.length).toBeGreaterThan(1000);
    }
  });

  test('exit 1 and one sentence if the database hangs; no file remains', async () => {
    await clientOf(databaseUrl)`INSERT INTO pet SELECT i, 'pet', 1, 'sold' FROM generate_series(1, 50000) AS i`;
    const proxy = await startProxy(databaseUrl);
    databaseUrl = proxy.through(databaseUrl);
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
});
