/** The commands export and import on PostgreSQL, also beside running servers. */
import fs from 'node:fs';
import { beforeEach, expect, test, vi } from 'vitest';
import { commandErrorOf, jsonLines } from '../../support/commands.ts';
import { runCli } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, newStore, temporaryFolder, textRows } from '../../support/store.ts';

let databaseUrl: string;
let folder: string;

beforeEach(async () => {
  databaseUrl = await newStore();
  folder = temporaryFolder();
});

const at = (name: string) => `${folder}/${name}`;
const runHere = (...args: string[]) => runCli(args, { folder, env: { DATABASE_URL: databaseUrl } });

async function run(...args: string[]) {
  const { code, stdout, stderr } = await runHere(...args);
  expect(code, stderr).toBe(0);
  return stdout;
}

test('an export of a database that hangs: exit 1 and one sentence, and no file remains', async () => {
  await clientOf(databaseUrl)`INSERT INTO pet SELECT i, 'pet', 1, 'sold' FROM generate_series(1, 50000) AS i`;
  const proxy = await startProxy(databaseUrl);
  databaseUrl = proxy.url;
  const exporting = runHere('export', 'pets.jsonl');
  await vi.waitUntil(() => proxy.seen().includes('FROM pet WHERE id >'), { interval: 0, timeout: 20_000 });
  proxy.silence();
  expect(commandErrorOf(await exporting)).toBe('The store cannot answer: the database did not answer in time.');
  expect(fs.readdirSync(folder)).toEqual([]);
});

test('an import whose COMMIT is not answered says so, and adds each line once when it is repeated', async () => {
  const names = Array.from(Array(5000), (_, index) => `pet ${index + 1}`);
  fs.writeFileSync(at('pets.jsonl'), jsonLines(5000));
  const stored = async () => (await textRows(databaseUrl, 'SELECT name FROM pet ORDER BY id')).map(({ name }) => name);
  const proxy = await startProxy(databaseUrl);
  const env = { DATABASE_URL: proxy.url };
  const importing = runCli(['import', 'pets.jsonl'], { folder, env });
  await vi.waitUntil(() => proxy.seen().includes('pet 1500'), { interval: 0, timeout: 20_000 });
  proxy.cutNextAnswer();
  const [, known] = /at least (\d+) animals added/.exec(commandErrorOf(await importing)) ?? [];
  const { length } = await stored();
  expect(length).toBeGreaterThan(Number(known));
  expect(await run('import', 'pets.jsonl')).toBe(`Imported ${5000 - length} animals; already there: ${length}.\n`);
  expect(await stored()).toEqual(names);
});

test('an import says why the database refuses an animal', async () => {
  await clientOf(databaseUrl)`ALTER TABLE pet ADD CONSTRAINT short CHECK (length(name) < 3)`;
  fs.writeFileSync(at('pets.jsonl'), '{"name":"Tabby","categoryId":1}\n');
  expect(commandErrorOf(await runHere('import', 'pets.jsonl'))).toContain(
    'violates check constraint "short"): at least 0',
  );
});
