/** Tests of secrets that are read from files. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { runCli } from '../../support/process.ts';

const sound = 'postgres://user:hidden@db/animals';

/** Runs a command in a folder with these files. */
async function migrate(files: Record<string, string>, env: Record<string, string | undefined>) {
  const folder = temporaryFolder();
  for (const [name, content] of Object.entries(files)) writeFileSync(`${folder}/${name}`, content);
  mkdirSync(`${folder}/folder`);
  return { ...(await runCli(['migrate'], { folder, env })), folder };
}

test.for([
  ['secret', 'sqlite:./kept.db', ''],
  ['secret', '\uFEFFsqlite:./kept.db\r\n', ''],
  [undefined, 'sqlite:./kept.db\n', 'DATABASE_URL_FILE=secret\n'],
])('DATABASE_URL_FILE=%s names a file that contains %j; .env: %j', async ([file, secret = '', dotEnv = '']) => {
  // As in the image, whose DATABASE_URL can be emptied, but not unset.
  const env = { DATABASE_URL: '', DATABASE_URL_FILE: file };
  const { code, folder } = await migrate({ secret, '.env': dotEnv }, env);
  expect([code, existsSync(`${folder}/kept.db`)]).toEqual([0, true]);
});

const bothSet = 'DATABASE_URL and DATABASE_URL_FILE are both set: set only one of them.';
const wrongContent = (name: string) =>
  `DATABASE_URL_FILE must name a file whose only line is sqlite: and the path of a file, without ~, quotes, ? or percent-encoding, or postgres://user:password@host:port/database (the file ${name}).`;

test.for<[name: string, sentence: string, databaseUrl?: string]>([
  ['sound', bothSet, 'sqlite:a.db'],
  ['none', "DATABASE_URL_FILE: none cannot be read: ENOENT: no such file or directory, open 'none'."],
  ['folder', 'DATABASE_URL_FILE: folder cannot be read: it is not a file.'],
  ['empty', 'DATABASE_URL_FILE names an empty file: empty.'],
  ['two-lines', wrongContent('two-lines')],
  ['blanks', wrongContent('blanks')],
])('DATABASE_URL_FILE=%s is refused with one sentence, without the secret', async ([name, sentence, databaseUrl]) => {
  const files = { sound, empty: '\n', blanks: '  \n', 'two-lines': `${sound}\n${sound}\n` };
  const { folder, ...exit } = await migrate(files, { DATABASE_URL_FILE: name, DATABASE_URL: databaseUrl });
  expect([exit.code, exit.stdout, exit.stderr.replace(`${folder}/`, '')]).toEqual([
    1,
    '',
    `animal-store: ${sentence}\n`,
  ]);
});
