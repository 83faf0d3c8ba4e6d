/** Tests that the server refuses a file that is not a store of this release, with one line, and leaves it unchanged. */
import { hash } from 'node:crypto';
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, expect, test } from 'vitest';
import { latestVersion } from '../../../src/store/sqlite/migrations.ts';
import { temporaryFolder } from '../../support/app.ts';
import { change } from '../../support/commands.ts';
import { launchServer } from '../../support/process.ts';
import { makeStore } from '../../support/store-file.ts';
import { injecting, needStrace } from '../../support/strace.ts';
import { figure, patientMs } from '../../support/tier.ts';

const noDatabase = 'cannot be opened: file is not a database';
const malformed = 'cannot be opened: database disk image is malformed';
const garbage = 'Not a database. '.repeat(1000);

/** Overwrites `length` bytes of the file from `offset` on. */
function damage(file: string, offset: number, length: number): void {
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.fill(0xa5, offset, offset + length));
}

/** Replaces the store with another application's database whose last writes are still in its WAL, as after a crash. */
function leaveForeignWal(file: string): void {
  const aside = path.join(temporaryFolder(), 'other.db');
  const other = new Database(aside);
  other.exec('PRAGMA journal_mode = WAL; CREATE TABLE pet (id INTEGER PRIMARY KEY); INSERT INTO pet VALUES (1)');
  for (const suffix of ['', '-wal']) copyFileSync(aside + suffix, file + suffix);
  other.close();
}

/** The bad file → how to make it from a sound, closed store, and the error message. */
const cases: Record<string, [spoil: (file: string) => void, sentence: string]> = {
  'a text file': [(file) => writeFileSync(file, garbage), noDatabase],
  'a text file beside an empty WAL': [
    (file) => {
      writeFileSync(file, garbage);
      writeFileSync(`${file}-wal`, '');
    },
    noDatabase,
  ],
  'a store truncated inside a page': [(file) => truncateSync(file, statSync(file).size - 6000), malformed],
  'a store with a damaged header': [(file) => damage(file, 16, 8), noDatabase],
  'a store with a damaged schema': [(file) => damage(file, 100, 3000), malformed],
  'a store without its pet table': [(file) => change(file, 'DROP TABLE pet'), 'cannot be opened: no such table: pet'],
  'a store of a newer release': [
    (file) => change(file, "PRAGMA user_version = 99; UPDATE migration SET name = '2.0.0' WHERE version = 0"),
    `has schema version 99; this release supports versions up to ${latestVersion()}: use release 2.0.0 or later`,
  ],
  "another application's database": [
    (file) => change(file, 'PRAGMA application_id = 7'),
    'is a database of another application',
  ],
  "another application's database that is empty except for its version": [
    (file) => {
      rmSync(file);
      change(file, 'PRAGMA user_version = 1');
    },
    'is a database of another application',
  ],
  "another application's database, with a WAL": [leaveForeignWal, 'is a database of another application'],
  'a folder': [
    (file) => {
      rmSync(file);
      mkdirSync(file);
      writeFileSync(path.join(file, 'note'), 'kept');
    },
    'is not a file',
  ],
};

/** Path → hash of each file in the folder. */
function contents(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map(({ parentPath, name }) => path.join(parentPath, name));
  return Object.fromEntries(paths.map((file) => [file, hash('sha256', readFileSync(file))]));
}

const withinMs = 30_000;
const refusalsMs: number[] = [];

/** Starts the server in `folder`, and expects an exit with 1 and this error message. */
async function expectRefusal(folder: string, sentence: string, under: string[] = []): Promise<void> {
  const before = contents(folder);
  const begun = performance.now();
  const server = launchServer({ folder, env: { DATABASE_URL: 'sqlite:store.db' }, under });
  const timer = setTimeout(() => void server.end('SIGKILL'), withinMs);
  const exit = await server.end().finally(() => clearTimeout(timer));
  refusalsMs.push(performance.now() - begun);
  expect(exit).toEqual({ code: 1, stdout: '', stderr: `animal-store: DATABASE_URL: store.db ${sentence}.\n` });
  // SQLite may leave an empty WAL beside it.
  expect(contents(folder)).toMatchObject(before);
}

test.for(Object.entries(cases))(
  '%s: exit 1 with a one-line message, and the file is unchanged',
  { timeout: patientMs },
  async ([, [spoil, sentence]]) => {
    const { folder, file } = await makeStore();
    spoil(file);
    await expectRefusal(folder, sentence);
  },
);

test(
  'a store without read permission: exit 1 with a one-line message, and the file is unchanged',
  async (context) => {
    // Tests may run as root, which can read every file.
    needStrace(context);
    const { folder, file } = await makeStore();
    const forbidden = injecting('openat', 'error=EACCES', file);
    await expectRefusal(folder, 'cannot be opened: unable to open database file', forbidden);
  },
  patientMs,
);

afterAll(() => {
  figure(`bad files: ${refusalsMs.length} refused, the slowest after ${Math.round(Math.max(...refusalsMs))} ms`);
});
