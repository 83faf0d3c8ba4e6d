/** Tests that the server refuses a file that is not a store of this release, with one line, and leaves it unchanged. */
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { change, contentsOf } from '../../support/commands.ts';
import { launchServer } from '../../support/process.ts';
import { makeStore } from '../../support/store-file.ts';
import { injecting, needStrace } from '../../support/strace.ts';

const malformed = 'cannot be opened: database disk image is malformed';

test.for<[what: string, spoil: (file: string) => unknown, sentence: string]>([
  ['a store truncated inside a page', (file) => fs.truncateSync(file, fs.statSync(file).size - 6000), malformed],
  [
    'a store with a damaged schema',
    (file) => fs.writeFileSync(file, fs.readFileSync(file).fill(0xa5, 100, 3100)),
    malformed,
  ],
  ['a store without its pet table', (file) => change(file, 'DROP TABLE pet'), 'cannot be opened: no such table: pet'],
  [
    "another application's database",
    (file) => change(file, 'PRAGMA application_id = 7'),
    'is a database of another application',
  ],
  // Tests may run as root, which can read every file.
  ['a store without read permission', () => undefined, 'cannot be opened: unable to open database file'],
])('%s: exit 1 with a one-line message, and the file is unchanged', async ([what, spoil, sentence], context) => {
  const { folder, file } = await makeStore();
  spoil(file);
  const isForbidden = what.endsWith('permission');
  if (isForbidden) needStrace(context);
  const before = contentsOf(folder);
  const under = isForbidden ? injecting('openat', 'error=EACCES', file) : [];
  const server = launchServer({ folder, env: { DATABASE_URL: 'sqlite:store.db' }, under });
  const timer = setTimeout(() => void server.end('SIGKILL'), 30_000);
  const exit = await server.end().finally(() => clearTimeout(timer));
  expect(exit).toEqual({ code: 1, stdout: '', stderr: `animal-store: DATABASE_URL: store.db ${sentence}.\n` });
  // SQLite may leave an empty WAL beside it.
  expect(contentsOf(folder)).toMatchObject(before);
});
