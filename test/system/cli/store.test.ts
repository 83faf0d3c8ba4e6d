/** What the commands for one-time links and for the whole store print and change, in tables. Each event is `name account key`. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { hashToken } from '../../../src/core/people.ts';
import { temporaryFolder } from '../../support/app.ts';
import {
  commandErrorOf,
  commandFolder,
  created,
  expectRows,
  instant,
  query,
  type Row,
  refusal,
  refused,
  setPassword,
  withZoo,
} from '../../support/commands.ts';
import { runCli } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

describe('one-time links', () => {
  const local = 'http://127.0.0.1:3000/account/links/<token>\n';
  const note = (whose: string) => `The link for ${whose} works once, until <time>:\n`;

  test('invite is for an account without a password, or adds one; reset is for one with a password', async () => {
    const { folder } = await withZoo();
    await expectRows(folder, [
      ['account invite', 0, local, `account_invited\n${note('a new account')}`],
      ['account invite zoo', 0, local, `account_invited 1\n${note('account zoo')}`],
      [
        ['account', 'invite', 'Fair 2'],
        0,
        local,
        `account_created 2\nAccount Fair 2 added.\naccount_invited 2\n${note('account Fair 2')}`,
      ],
      refused('account reset circus', 'There is no account circus.'),
      refused('account reset zoo', 'Account zoo has no password yet: use account invite zoo.'),
    ]);
    await setPassword(folder);
    const reset: Row = ['account reset zoo', 0, local, `account_reset 1\n${note('account zoo')}`];
    await expectRows(folder, [
      refused('account invite zoo', 'Account zoo has a password already: use account reset zoo.'),
      reset,
      // These settings are for those who have no account yet.
      [...reset, { SIGN_UP: 'off' }],
      [...reset, { SIGN_UP: 'invitation' }],
    ] as Row[]);
  });

  test.each([
    [['invite'], 24, null],
    [['reset', 'zoo'], 1, 'zoo'],
  ])('what is stored of the link of %j is as printed; it ends after %d hours', async (args, hours, account) => {
    const { folder, run, store } = await withZoo();
    await setPassword(folder);
    const start = Date.now();
    const { link, ...printed } = JSON.parse(await run('account', ...args, '--json'));
    expect(printed).toEqual({ account, expiresAt: instant });
    const [stored] = query<{ hash: Buffer; expires_at: number }>(store, 'SELECT hash, expires_at FROM one_time_link');
    expect(stored?.hash.equals(hashToken(link.slice(-43)) as Buffer)).toBe(true);
    const until = Date.parse(printed.expiresAt);
    expect(until).toBeGreaterThanOrEqual(start + hours * 3_600_000);
    // The link does not end before the time that the operator was told.
    expect(stored?.expires_at).toBeGreaterThanOrEqual(until);
    expect(stored?.expires_at).toBeLessThanOrEqual(Date.now() + hours * 3_600_000);
  });

  const unset = 'BASE_URL is not set: the link has an address of this machine.\n';
  const api = 'https://api.example.com';
  test('begins with the address of the server, of which a note asks for a public one', async () => {
    const { folder } = await withZoo();
    const roots: [root: string, env: Record<string, string>, note?: string][] = [
      ['http://127.0.0.1:8080', { PORT: '8080' }],
      ['http://[::2]:3000', { HOST: '::2' }],
      [api, { BASE_URL: `${api}/v1`, DEPLOYMENT: 'production' }],
      ['http://127.0.0.1:3000', { DEPLOYMENT: 'production' }, unset],
      ['http://127.0.0.1:3000', { HOST: '::' }],
    ];
    await expectRows(
      folder,
      roots.map(([root, env, before = '']) => [
        'account invite',
        0,
        `${root}/account/links/<token>\n`,
        `${before}account_invited\n${note('a new account')}`,
        env,
      ]),
    );
  });

  test('exit 1, and nothing is changed: a link that no page would take', async () => {
    const { folder, store } = await withZoo();
    await setPassword(folder);
    const noPages = 'SIGN_UP is none: the server has no page for the link.';
    const noSignUp = 'SIGN_UP is off: invitations are not accepted.';
    await expectRows(folder, [
      refused('account invite', noPages, { SIGN_UP: 'none' }),
      refused('account reset zoo', noPages, { SIGN_UP: 'none' }),
      refused('account invite', noSignUp, { SIGN_UP: 'off' }),
      refused('account invite fair', noSignUp, { SIGN_UP: 'off' }),
    ]);
    for (const table of ['one_time_link', "account WHERE name = 'fair'"])
      expect(query(store, `SELECT * FROM ${table}`)).toEqual([]);
  });
});

describe('the store', () => {
  test('is created by migrate, which then finds it up to date', async () => {
    const { folder } = await commandFolder();
    const applied = readdirSync(`${projectFolder}migrations/sqlite`).sort().join(', ');
    await expectRows(folder, [
      ['migrate', 0, `Applied ${applied}.\n`, created],
      ['migrate', 0, 'The store is up to date.\n'],
    ]);
  });

  test('exit 1: is not created by commands that need what is in it: the sentence names the file', async () => {
    const { folder } = await commandFolder();
    const sentence =
      'DATABASE_URL: other/store.db does not exist: start the server or run animal-store migrate to create it.';
    const lines = [
      'account list',
      'account remove zoo',
      'account reset zoo',
      'key create --account zoo --name till',
      'key list --json',
      'key revoke 1',
      'key rotate 1 --overlap 1h',
      'key usage 1',
      'export',
    ];
    const rows = lines.map((line) => refused(line, sentence));
    await expectRows(folder, rows, { env: { DATABASE_URL: 'sqlite:other/store.db' } });
    expect(readdirSync(folder)).toEqual([]);
  });

  test('is the one that .env names; exit 1 if .env cannot be read, so that no other store is used instead', async () => {
    const { folder, store } = await withZoo();
    const elsewhere = temporaryFolder();
    writeFileSync(`${elsewhere}/.env`, `DATABASE_URL=sqlite:${path.relative(elsewhere, store)}\n`);
    const list = 'ID  NAME  CREATED AT  HAS PASSWORD\n1  zoo  <time>  false\n';
    await expectRows(elsewhere, [['account list', 0, list]]);
    mkdirSync(`${folder}/.env`);
    expect(commandErrorOf(await runCli(['account', 'list'], { folder }))).toMatch(/^\.env cannot be read: .+[^.]\.$/);
  });
});

describe('files', () => {
  test('exit 1: a file or folder that cannot be used is named in one sentence', async () => {
    const { folder, at } = await withZoo();
    mkdirSync(at('folder'));
    await expectRows(folder, [
      refused('import missing.jsonl', 'missing.jsonl does not exist.'),
      refused('import folder', 'folder is not a file.'),
      refused('export missing/out.jsonl', 'missing does not exist.'),
      refused('export folder', 'folder is not a file.'),
    ]);
    expect(readdirSync(folder).sort()).toEqual(['data', 'folder']);
  });

  test.each<[string, string, (name: string) => unknown]>([
    ['a FIFO without a writer', 'it', (name) => execFileSync('mkfifo', [name])],
    ['a socket', 'it', (name) => once(createServer().unref().listen(name), 'listening')],
    ['a folder', 'it', (name) => mkdirSync(name)],
    ['a device', '/dev/zero', (name) => symlinkSync('/dev/zero', name)],
  ])('exit 1: %s in place of a file is named in one sentence, and read by no command', async (_, it, make) => {
    const { folder, at } = await withZoo();
    await make(at('it'));
    const other = `${it} is not a file.`;
    const unread = 'cannot be read: it is not a file.';
    const tls = `postgres://db/animals?sslmode=verify-full&sslrootcert=${it}`;
    await expectRows(folder, [
      ...['check', 'restore', 'import', 'export', 'export --force'].map((line) => refused(`${line} ${it}`, other)),
      refused(`copy --from sqlite:${it} --to postgres://db/animals`, other),
      refused('check', other, { DATABASE_URL: `sqlite:${it}` }),
      ...['account list', 'migrate', 'backup copy.db'].map((line) =>
        refused(line, `DATABASE_URL: ${other}`, { DATABASE_URL: `sqlite:${it}` }),
      ),
      refused('migrate', `DATABASE_URL_FILE: ${it} ${unread}`, { DATABASE_URL_FILE: it }),
      refused('migrate', `DATABASE_URL: sslrootcert ${unread}`, { DATABASE_URL: tls }),
    ]);
    for (const suffix of ['-wal', '-shm', '-journal']) {
      const store = `store${suffix}.db`;
      writeFileSync(at(store), '');
      await make(at(store + suffix));
      const sentence = `DATABASE_URL: ${store}${suffix} is not a file.`;
      await expectRows(folder, [refused('migrate', sentence, { DATABASE_URL: `sqlite:${store}` })]);
    }
    await make(at('.env'));
    await expectRows(folder, [refused('migrate', `.env ${unread}`)]);
  });

  test('exit 1: output that cannot be written does not undo the change', async () => {
    const { folder, run } = await withZoo();
    const message = 'ENOSPC: no space left on device, write';
    const unwritable = Object.assign(new Error(message), { code: 'ENOSPC', syscall: 'write' });
    const exit = await runCli(['account', 'add', 'circus'], { folder, isTTY: true, unwritable });
    expect([exit.code, exit.stderr]).toEqual([
      1,
      `Store: sqlite:./data/animal-store.db\n${refusal(`The output cannot be written (${message}). What the command has changed stays.`)}`,
    ]);
    expect(await run('account', 'list')).toContain('circus');
  });
});
