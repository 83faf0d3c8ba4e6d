/** Tests that the server refuses a file that is not a store of this release, with one line, and leaves it unchanged. */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { latestVersion } from '../../../src/store/sqlite/migrations.ts';
import { change } from '../../support/commands.ts';
import { launchServer } from '../../support/process.ts';
import { makeStore } from '../../support/store-file.ts';
import { injecting, needStrace } from '../../support/strace.ts';

const malformed = 'cannot be opened: database disk image is malformed';

/** Path → hash of each file in the folder. */
function contents(folder: string): Record<string, string> {
  const files = fs.readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map(({ parentPath, name }) => path.join(parentPath, name));
  return Object.fromEntries(paths.map((file) => [file, hash('sha256', fs.readFileSync(file))]));
}

test.for<[what: string, spoil: (file: string) => unknown, sentence: string]>([
  [
    'a text file',
    (file) => fs.writeFileSync(file, 'Not a database. '.repeat(1000)),
    'cannot be opened: file is not a database',
  ],
  ['a store truncated inside a page', (file) => fs.truncateSync(file, fs.statSync(file).size - 6000), malformed],
  [
    'a store with a damaged schema',
    (file) => fs.writeFileSync(file, fs.readFileSync(file).fill(0xa5, 100, 3100)),
    malformed,
  ],
  ['a store without its pet table', (file) => change(file, 'DROP TABLE pet'), 'cannot be opened: no such table: pet'],
  [
    'a store of a newer release',
    (file) => change(file, "PRAGMA user_version = 99; UPDATE migration SET name = '2.0.0' WHERE version = 0"),
    `has schema version 99; this release supports versions up to ${latestVersion()}: use release 2.0.0 or later`,
  ],
  [
    "another application's database",
    (file) => change(file, 'PRAGMA application_id = 7'),
    'is a database of another application',
  ],
  [
    'a folder',
    (file) => {
      fs.rmSync(file);
      fs.cpSync(import.meta.dirname, file, { recursive: true });
    },
    'is not a file',
  ],
  // Tests may run as root, which can read every file.
  ['a store without read permission', () => undefined, 'cannot be opened: unable to open database file'],
])('%s: exit 1 with a one-line message, and the file is unchanged', async ([what, spoil, sentence], context) => {
  const { folder, file } = await makeStore();
  spoil(file);
  const isForbidden = what.endsWith('permission');
  if (isForbidden) needStrace(context);
  const before = contents(folder);
  const under = isForbidden ? injecting('openat', 'error=EACCES', file) : [];
  const server = launchServer({ folder, env: { DATABASE_URL: 'sqlite:store.db' }, under });
  const timer = setTimeout(() => void server.end('SIGKILL'), 30_000);
  const exit = await server.end().finally(() => clearTimeout(timer));
  expect(exit).toEqual({ code: 1, stdout: '', stderr: `animal-store: DATABASE_URL: store.db ${sentence}.\n` });
  // SQLite may leave an empty WAL beside it.
  expect(contents(folder)).toMatchObject(before);
});
