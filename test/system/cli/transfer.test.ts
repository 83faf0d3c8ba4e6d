/** The commands export and import. */
import fs from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { NewPet } from '../../../src/core/pets.ts';
import { change, commandErrorOf, commandFolder, jsonLines, namesIn, query } from '../../support/commands.ts';
import { launch, launchCli, runCli, startServer } from '../../support/process.ts';
import { projectFolder, read } from '../../support/project.ts';
import { mountSmallDisk } from '../../support/small-disk.ts';

const tabby: NewPet = { name: 'Tabby', categoryId: 1n, status: 'available' };
const rex: NewPet = { name: 'Rex, the "King"', categoryId: 9_007_199_254_740_993n, status: 'sold' };
const ida: NewPet = { name: 'Ida\r\nand\u2028Bo', categoryId: -(2n ** 63n), status: 'pending' };

const cli = `'${process.execPath}' '${projectFolder}src/cli.ts'`;

/** Runs a line of bash in a folder. */
const shell = (line: string, folder: string) => launch('bash', ['--norc', '-c', line], { folder }).end();

const repeat =
  'To continue, repeat the import with the same content within 23 hours of its first start. Other content adds all its animals.';

/** The number of animals in a store, which may not exist yet. */
function countIn(store: string) {
  try {
    return query<{ count: number }>(store, 'SELECT count(*) AS count FROM pet')[0]?.count as number;
  } catch {
    return 0;
  }
}

/** A file of `count` animals. `start` imports it in a process; `imported` waits until the store has that many animals. */
async function withFile(count: number) {
  const here = await commandFolder();
  const { folder, store } = here;
  fs.writeFileSync(here.at('pets.jsonl'), jsonLines(count));
  return {
    ...here,
    start: () => launchCli(['import', 'pets.jsonl'], { folder }),
    imported: async (atLeast: number) => {
      while (!fs.existsSync(store) || countIn(store) < atLeast) await setTimeout(5);
    },
    /** Imports it again, which adds what is missing. */
    complete: async () => {
      const before = countIn(store);
      expect(before).toBeLessThan(count);
      const added = before ? `${count - before} animals; already there: ${before}` : `${count} animals`;
      expect(await here.run('import', 'pets.jsonl')).toBe(`Imported ${added}.\n`);
      // In any order: on a full disk, a later transaction may fit where an earlier one did not.
      expect(namesIn(store).sort()).toEqual(Array.from(Array(count), (_, index) => `pet ${index + 1}`).sort());
    },
  };
}

describe('export', () => {
  test('writes each animal exactly as the server returns it, in ascending order of id', async () => {
    const { run } = await commandFolder(tabby, rex, ida);
    const lines = [
      '{"id":1,"name":"Tabby","categoryId":1,"status":"available"}',
      '{"id":2,"name":"Rex, the \\"King\\"","categoryId":9007199254740993,"status":"sold"}',
      '{"id":3,"name":"Ida\\r\\nand\u2028Bo","categoryId":-9223372036854775808,"status":"pending"}',
    ];
    expect(await run('export')).toBe(`${lines.join('\n')}\n`);
    expect(await run('export', '-', '--status', 'sold')).toBe(`${lines[1]}\n`);
  });

  test('replaces an existing file only with --force, and never the store', async () => {
    const { refused, run, at, folder } = await commandFolder(tabby);
    fs.writeFileSync(at('pets.jsonl'), 'precious');
    expect(await refused('export', 'pets.jsonl')).toBe('pets.jsonl exists already: use --force to replace it.');
    expect(fs.readFileSync(at('pets.jsonl'), 'utf8')).toBe('precious');
    expect((await runCli(['export', 'pets.jsonl', '--force'], { folder })).stderr).toBe('Exported 1 animal.\n');
    expect(fs.readFileSync(at('pets.jsonl'), 'utf8')).toMatch(/Tabby/);
    fs.symlinkSync('pets.jsonl', at('newest'));
    await run('export', 'newest', '--force');
    expect(fs.readlinkSync(at('newest'))).toBe('pets.jsonl');
    expect(await refused('export', 'data/animal-store.db', '--force')).toMatch(/is the store itself/);
  });

  test('writes every page; exit 1 and one sentence: the reader closes the pipe early, and the disk of the file is full', async (context) => {
    const { run, refused, folder, at } = await withFile(4000);
    await run('import', 'pets.jsonl');
    const exported = (await run('export')).replace(/.*"id":(\d+),"name":"pet (\d+)".*/g, '$1 $2').trimEnd();
    expect(exported.split('\n')).toEqual(Array.from(Array(4000), (_, index) => `${index + 1} ${index + 1}`));
    expect(await shell(`{ ${cli} export; echo "exit $?" >&2; } | head -n 1`, folder)).toMatchObject({
      stdout: '{"id":1,"name":"pet 1","categoryId":1,"status":"available"}\n',
      stderr: 'animal-store: The output was closed before its end.\nexit 1\n',
    });
    mountSmallDisk(context, at('small'), 40);
    expect(await refused('export', 'small/pets.jsonl')).toMatch(
      /^small\/pets\.jsonl\.partial-\S+ cannot be written: ENOSPC: no space left on device, write\.$/,
    );
    expect(fs.readdirSync(at('small'))).toEqual([]);
  });
});

test('the commands of docs/command-line.md make CSV and read it, with every digit', async ({ skip }) => {
  const { run, folder, at } = await commandFolder(tabby, rex);
  if ((await shell('jq --version', folder)).code !== 0) return skip('jq is not installed');
  await run('export', 'animals.jsonl');
  const page = read('docs/command-line.md');
  const [exact = '', back = ''] = page.match(/^jq -(.|\n .)+ > animals.+/gm) ?? [];
  expect(await shell(exact, folder)).toMatchObject({ code: 0, stderr: '' });
  const csv = '1,"Tabby",1,"available"\n2,"Rex, the ""King""",9007199254740993,"sold"\n';
  expect(fs.readFileSync(at('animals.csv'), 'utf8')).toBe(csv);
  fs.writeFileSync(at('animals.csv'), csv.slice('1,'.length));
  expect(await shell(back, folder)).toMatchObject({ code: 0, stderr: '' });
  await run('import', 'animals-new.jsonl');
  for (const [file, command] of [
    ['animals.jsonl', exact],
    ['animals.csv', back],
  ] as const) {
    const good = fs.readFileSync(at(file), 'utf8');
    fs.writeFileSync(at(file), `BROKEN\n${good}`);
    expect(await shell(command, folder)).toMatchObject({ code: 5, stderr: expect.stringContaining('line 1') });
  }
  // Spreadsheets quote only where they must, and may begin with a byte order mark.
  const spreadsheet = '\uFEFF1,"Rex, the ""King""",9007199254740993,sold\r\n,Tabby,1,available\r\n';
  fs.writeFileSync(at('animals.csv'), spreadsheet);
  expect(await shell(back, folder)).toMatchObject({ code: 0, stderr: '' });
  await run('import', 'animals-new.jsonl');
  const [first, second, ...more] = (await run('export'))
    .replace(/"id":\d+,/g, '')
    .trimEnd()
    .split('\n');
  expect(more).toEqual([first, second, second, first]);
});

describe('import', () => {
  test('adds every animal exactly, with new ids instead of those in the file', async () => {
    const { folder, run, at } = await commandFolder(tabby);
    const lines = [
      '{"id": 77, "name": "Rex", "categoryId": 9007199254740993, "status": "sold"}\r',
      '',
      ' {"categoryId": -9223372036854775808, "name": "Ida \\ud83d\\ude3a\u2028Bo\\r\\""}',
    ];
    fs.writeFileSync(at('pets.jsonl'), `\uFEFF${lines.join('\n')}`);
    const imported = { code: 0, stdout: 'Imported 2 animals.\n', stderr: '' };
    expect(await runCli(['import', 'pets.jsonl'], { folder })).toEqual(imported);
    expect((await run('export')).split('\n').slice(1, 3)).toEqual([
      '{"id":2,"name":"Rex","categoryId":9007199254740993,"status":"sold"}',
      '{"id":3,"name":"Ida 😺\u2028Bo\\r\\"","categoryId":-9223372036854775808,"status":"available"}',
    ]);
  });

  test('reads a pipe in the same way, and adds nothing if a line is bad', async () => {
    const { folder, at, store } = await withFile(1500);
    fs.appendFileSync(at('pets.jsonl'), '{}\n');
    const refused = await shell(`cat pets.jsonl | ${cli} import -`, folder);
    expect(commandErrorOf(refused)).toMatch(/^line 1501: name is required; categoryId is required\.\n1 of 1501 lines/);
    expect(fs.existsSync(store)).toBe(false);
    expect(await shell(`head -n 1500 pets.jsonl | ${cli} import -`, folder)).toMatchObject({ code: 0 });
    expect(commandErrorOf(await shell(`${cli} import - < .`, folder))).toBe('Standard input is a folder.');
    expect(await shell(`${cli} import <(echo '{"name":"a","categoryId":1}')`, folder)).toMatchObject({ code: 0 });
    expect(countIn(store)).toBe(1501);
  });

  test('exit 1, and nothing is imported: every bad line is reported with the message of POST /pets', async () => {
    const server = await startServer();
    const { folder } = server;
    const bad: (string | Buffer)[] = [
      '{"name":"","categoryId":9223372036854775808,"status":"lost","age":3}',
      '{"name":"Rex"}',
      '[1]',
      '{"name":"a\\u0000b","categoryId":1.5}',
      'nonsense \u001b[31m',
      '['.repeat(60_000),
      Buffer.from('{"name":"\xff","categoryId":1}', 'latin1'),
    ];
    const lines = ['{"name":"good","categoryId":1}', ...bad].flatMap((line) => [Buffer.from(line), Buffer.from('\n')]);
    fs.writeFileSync(`${folder}/pets.jsonl`, Buffer.concat(lines));
    const headers = { authorization: `Bearer ${await server.firstKey()}`, 'content-type': 'application/json' };
    const messageOf = async (body: string | Buffer) => {
      const answer = await fetch(`${server.url}/v1/pets`, { method: 'POST', headers, body });
      return ((await answer.json()) as { message: string }).message;
    };
    const messages = (await Promise.all(bad.map(messageOf))).map((message, index) => {
      return `line ${index + 2}: ${message.replace(/^The body (is )?/, '').replace('\u001b', '\\u001b')}`;
    });
    expect(commandErrorOf(await runCli(['import', 'pets.jsonl'], { folder })).split('\n')).toEqual([
      ...messages,
      '7 of 8 lines are bad, so nothing was imported.',
    ]);
    expect(namesIn(`${folder}/data/animal-store.db`)).toEqual([]);
  });

  test('accepts lines as long as the body of a request, wherever a read of the file ends', async () => {
    const { run, refused, at } = await commandFolder();
    const most = 65_536;
    const linesOf = (more: number) =>
      [most, most, most, 100, most, most].map((length) => '{"name":"a","categoryId":1}'.padEnd(length + more));
    fs.writeFileSync(at('most.jsonl'), linesOf(0).join('\n'));
    expect(await run('import', 'most.jsonl')).toBe('Imported 6 animals.\n');
    fs.writeFileSync(at('more.jsonl'), linesOf(1).join('\n'));
    const sentences = (await refused('import', 'more.jsonl')).split('\n').slice(0, -1);
    expect(sentences).toEqual([1, 2, 3, 5, 6].map((number) => `line ${number}: longer than ${most} bytes.`));
  });

  test('exit 1: reports the first 20 bad lines, and counts all; an endless line takes no memory', async () => {
    const { refused, at } = await commandFolder();
    fs.writeFileSync(at('pets.jsonl'), `${jsonLines(3)}${'x'.repeat(3_000_000)}\n${'{}\n'.repeat(24)}`);
    const sentences = (await refused('import', 'pets.jsonl')).split('\n');
    expect([sentences[0], sentences.length, ...sentences.slice(19)]).toEqual([
      'line 4: longer than 65536 bytes.',
      21,
      'line 23: name is required; categoryId is required.',
      '25 of 28 lines are bad, so nothing was imported.',
    ]);
  });
});

describe('import, again', () => {
  test('the same content is added once in 24 hours, under any name; an empty line makes it another', async () => {
    const { run, at, store } = await withFile(3);
    await run('import', 'pets.jsonl');
    fs.renameSync(at('pets.jsonl'), at('renamed.jsonl'));
    const again = () => run('import', 'renamed.jsonl');
    expect(await again()).toBe('Imported 0 animals; already there: 3.\n');
    fs.appendFileSync(at('renamed.jsonl'), '\n');
    expect(await again()).toBe('Imported 3 animals.\n');
    change(store, 'UPDATE idempotency SET created_at = created_at - 24 * 60 * 60 * 1000');
    expect(await again()).toBe('Imported 3 animals.\n');
    expect(countIn(store)).toBe(9);
  });

  test('after SIGINT and SIGTERM, which end it, it adds what is missing, and nothing twice', async () => {
    const { start, imported, complete } = await withFile(30_000);
    for (const [signal, atLeast] of [
      ['SIGINT', 1],
      ['SIGTERM', 9000],
    ] as const) {
      const command = start();
      await imported(atLeast);
      // Without memory, the kernel ends the command before the server.
      expect(fs.readFileSync(`/proc/${command.pid}/oom_score_adj`, 'utf8')).toBe('500\n');
      expect(await command.end(signal)).toMatchObject({ code: null, stdout: '' });
    }
    await complete();
  });

  test('exit 1: a full disk; what was added stays, and the rest is added once there is room', async (context) => {
    const { folder, at, store, complete } = await withFile(20_000);
    const disk = mountSmallDisk(context, at('data'), 3500);
    const { code, stderr } = await runCli(['import', 'pets.jsonl'], { folder });
    const added = countIn(store);
    expect(added).toBeGreaterThan(0);
    expect([code, stderr.replace(/^Created .+\n/, '')]).toEqual([
      1,
      `animal-store: The store cannot be written (database or disk is full): at least ${added} animals added. ${repeat}\n`,
    ]);
    disk.resize(30_000);
    await complete();
  });

  test('exit 1: the file changes during the import; with its former content, the import continues', async () => {
    const { at, start, imported, complete, store } = await withFile(30_000);
    const content = fs.readFileSync(at('pets.jsonl'));
    const command = start();
    await imported(1);
    fs.appendFileSync(at('pets.jsonl'), '{"name":"late","categoryId":1}\n');
    const { code, stderr } = await command.end();
    const sentence = `pets.jsonl changed during the import: ${countIn(store)} animals added. ${repeat}`;
    expect([code, stderr]).toEqual([1, expect.stringContaining(`animal-store: ${sentence}\n`)]);
    fs.writeFileSync(at('pets.jsonl'), content);
    await complete();
  });
});
