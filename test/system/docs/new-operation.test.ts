/** Adds the operation of CONTRIBUTING.md to a copy of the project, and checks that nothing else must know it. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { copyProject } from '../../support/plant.ts';
import { launch, startServer } from '../../support/process.ts';
import { blocksOf, projectFolder, read } from '../../support/project.ts';

/** Where a block of code belongs: a new file, the end of a file, or behind the first line that starts with a text. */
const place = /^\/\/ (\S+?)(?:, (at the end|after `(.+)`))?$/;

/** Adds a block of code to the copy; its imports go behind those of the file, or to the start. Returns the name of the file. */
function addBlock(folder: string, block: string) {
  const [first = '', ...lines] = block.split('\n');
  const [, name = '', where, anchor] = place.exec(first) ?? [];
  const file = `${folder}/${name}`;
  if (where === undefined) {
    expect(existsSync(file), name).toBe(false);
    writeFileSync(file, `${lines.join('\n')}\n`);
    return name;
  }
  const { imports = [], code = [] } = Object.groupBy(lines, (line) => (/^import /.test(line) ? 'imports' : 'code'));
  const text = readFileSync(file, 'utf8').split('\n');
  const at = anchor === undefined ? text.length : text.findIndex((line) => line.trim().startsWith(anchor)) + 1;
  expect(at, `${name} has no line that starts with ${anchor}`).toBeGreaterThan(0);
  text.splice(at, 0, ...code);
  text.splice(
    text.findIndex((line) => line.startsWith('import ')),
    0,
    ...imports,
  );
  writeFileSync(file, text.join('\n'));
  return name;
}

const contributing = read('CONTRIBUTING.md');
const [, walkThrough = ''] = contributing.split('## How to add an operation');

/** Runs a command in the copy. */
async function run(folder: string, file: string, ...args: string[]) {
  const env = { HOME: process.env.HOME, npm_config_update_notifier: 'false' };
  const { code, stdout, stderr } = await launch(file, args, { folder, env }).end();
  expect(code, `${args.join(' ')}\n${stdout}${stderr}`).toBe(0);
}

const node = process.execPath;

test('a GET is five files by hand, from the code of CONTRIBUTING.md', async () => {
  const folder = copyProject();
  const blocks = blocksOf(walkThrough).filter((block) => block.startsWith('// '));
  expect(new Set(blocks.map((block) => addBlock(folder, block.trimEnd()))).size).toBe(5);
  await run(folder, 'npm', 'run', 'format');
  // Without a network, only the types of the client stay as they were.
  await run(folder, 'npm', 'run', 'generate').catch((error: Error) =>
    expect(error.message).toContain('with a network'),
  );
  // Lints the documents with Redocly, too.
  await run(folder, 'npm', 'run', 'check');
  const vitest = [
    `${projectFolder}node_modules/vitest/vitest.mjs`,
    'run',
    '--project=api',
    '--project=unit',
    '--project=docs',
  ];
  const tests = ['api/countPets', 'unit/docs/openapi', 'unit/docs/reference-page', 'system/docs/openapi-lint'];
  await run(folder, node, ...vitest, ...tests.map((name) => `test/${name}`));
  const server = await startServer({ source: folder });
  await server.add({ name: 'Biscuit', categoryId: 7, status: 'sold' });
  const { json } = await server.get('/v1/pets/count');
  expect(json).toEqual({ available: 0, pending: 0, sold: 1 });
  const refused = await server.call(await server.firstKey(), 'DELETE', '/v1/pets/count');
  expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
});
