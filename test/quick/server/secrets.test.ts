/** Tests of secrets that are read from files. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { runCli, startServer } from '../../support/process.ts';

/** A folder with these files. */
function folderWith(files: Record<string, string>): string {
  const folder = temporaryFolder();
  for (const [name, content] of Object.entries(files)) writeFileSync(path.join(folder, name), content);
  return folder;
}

test.for([
  ['secret', 'sqlite:./kept.db', ''],
  ['secret', 'sqlite:./kept.db\n', ''],
  ['secret', 'sqlite:./kept.db\r\n', ''],
  [undefined, 'sqlite:./kept.db\n', 'DATABASE_URL_FILE=secret\n'],
])('DATABASE_URL_FILE=%s names a file that contains %j; .env: %j', async ([file, secret = '', dotEnv = '']) => {
  const folder = folderWith({ secret, '.env': dotEnv });
  // As in the image, whose DATABASE_URL can be emptied, but not unset.
  const env = { DATABASE_URL: '', DATABASE_URL_FILE: file };
  expect(await runCli(['migrate'], { folder, env })).toMatchObject({ code: 0 });
  expect(existsSync(path.join(folder, 'kept.db'))).toBe(true);
});

test('DATABASE_URL_FILE may be an absolute path', async () => {
  const file = path.join(folderWith({ secret: 'sqlite:./kept.db' }), 'secret');
  const folder = temporaryFolder();
  expect(await runCli(['migrate'], { folder, env: { DATABASE_URL_FILE: file } })).toMatchObject({ code: 0 });
  expect(existsSync(path.join(folder, 'kept.db'))).toBe(true);
});

const bothSet = /^animal-store: DATABASE_URL and DATABASE_URL_FILE are both set: set only one of them\.\n$/;

const wrongContent =
  /^animal-store: DATABASE_URL_FILE must name a file whose only line is sqlite: and .+\/database\.\n$/;

test.for<[name: string, env: Record<string, string>, sentence: RegExp]>([
  ['both set', { DATABASE_URL: 'sqlite:a.db', DATABASE_URL_FILE: 'sound' }, bothSet],
  ['missing', { DATABASE_URL_FILE: 'none' }, /^animal-store: DATABASE_URL_FILE: the file none does not exist\.\n$/],
  ['a folder', { DATABASE_URL_FILE: 'folder' }, /^animal-store: DATABASE_URL_FILE: folder is a folder\.\n$/],
  ['empty', { DATABASE_URL_FILE: 'empty' }, /^animal-store: DATABASE_URL_FILE names an empty file: empty\.\n$/],
  ['two lines', { DATABASE_URL_FILE: 'two-lines' }, wrongContent],
  ['blanks', { DATABASE_URL_FILE: 'blanks' }, wrongContent],
])('a file that cannot be used is refused with one sentence, without the secret: %s', async ([, env, sentence]) => {
  const sound = 'postgres://user:hidden@db/animals';
  const folder = folderWith({ sound, empty: '\n', blanks: '  \n', 'two-lines': `${sound}\n${sound}\n` });
  mkdirSync(path.join(folder, 'folder'));
  const { code, stdout, stderr } = await runCli(['migrate'], { folder, env });
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(sentence);
  expect(stderr).not.toContain('hidden');
});

test('DATABASE_URL_FILE and DATABASE_URL of .env are refused together', async () => {
  const folder = folderWith({ '.env': 'DATABASE_URL=sqlite:a.db\n', secret: 'sqlite:b.db' });
  const { code, stderr } = await runCli(['migrate'], { folder, env: { DATABASE_URL_FILE: 'secret' } });
  expect([code, stderr]).toEqual([1, expect.stringMatching(bothSet)]);
});

test('a server uses the file', async () => {
  const folder = folderWith({ secret: 'sqlite:./kept.db\n' });
  const server = await startServer({ folder, env: { DATABASE_URL_FILE: 'secret' } });
  await server.firstKey();
  expect(existsSync(path.join(folder, 'kept.db'))).toBe(true);
  await server.end('SIGTERM');
});
