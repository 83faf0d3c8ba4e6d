/** What the commands for accounts and keys print and change, in tables. Each event is `name account key`. */
import { describe, expect, test } from 'vitest';
import { scopes } from '../../../src/core/accounts.ts';
import {
  change,
  commandFolder,
  created,
  expectRows,
  instant,
  type Row,
  refused,
  setPassword,
  useStore,
  withZoo,
} from '../../support/commands.ts';
import { runCli } from '../../support/process.ts';

const key = (id: number, account = 'zoo') => `Key ${id} of account ${account}. It is shown only now:\n`;

const revoked = (id: number): Row => [`key revoke ${id}`, 0, `Key ${id} revoked.\n`, `key_revoked 1 ${id}\n`];

/** Sets the expiry of a key to the past. */
const expire = (file: string, id: number) =>
  change(file, `UPDATE api_key SET expires_at = created_at WHERE id = ${id}`);

describe('account', () => {
  test('add, list and remove', async () => {
    const { folder, run } = await commandFolder();
    await expectRows(folder, [
      ['account add zoo', 0, 'Account zoo added.\n', `${created}account_created 1\n`],
      [['account', 'add', 'Tierpark Süd'], 0, 'Account Tierpark Süd added.\n', 'account_created 2\n'],
      refused('account add zoo', 'Account zoo exists already.'),
    ]);
    await setPassword(folder);
    expect(JSON.parse(await run('account', 'list', '--json'))).toEqual([
      { id: 1, name: 'zoo', createdAt: instant, hasPassword: true },
      { id: 2, name: 'Tierpark Süd', createdAt: instant, hasPassword: false },
    ]);
    await expectRows(folder, [
      ['account list', 0, 'ID  NAME  CREATED AT  HAS PASSWORD\n1  zoo  <time>  true\n2  Tierpark Süd  <time>  false\n'],
      ...[1, 2, 3].map(
        (id): Row => ['key create --account zoo --name a', 0, '<test key>\n', `key_created 1 ${id}\n${key(id)}`],
      ),
      revoked(1),
      [
        'key create --account zoo --name live',
        0,
        '<live key>\n',
        `key_created 1 4\n${key(4)}`,
        { DEPLOYMENT: 'production' },
      ],
      refused('account remove circus', 'There is no account circus.'),
      refused('account remove zoo', 'Account zoo has active keys (2, 3, 4): revoke them, or use --force.'),
      ['account remove zoo --force', 0, 'Account zoo removed.\n', 'account_removed 1\n'],
      ['key list', 0, 'There are no keys.\n'],
      [['account', 'remove', 'Tierpark Süd'], 0, 'Account Tierpark Süd removed.\n', 'account_removed 2\n'],
      ['account list', 0, 'There are no accounts.\n'],
      ['account list --json', 0, '[]\n'],
    ]);
  });

  test('list 130,000', async () => {
    const { store, run } = await withZoo();
    change(
      store,
      `INSERT INTO account (name, created_at)
       WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 130000) SELECT i, 0 FROM n`,
    );
    expect((await run('account', 'list')).split('\n')).toHaveLength(130_003);
  });

  test('stores a name in NFC, and finds it by each spelling; one of release 1.0.0 as it was typed', async () => {
    const { folder, store } = await commandFolder();
    const [composed, typed] = ['Zo\u00e9', 'Zoe\u0301'];
    await expectRows(folder, [
      [`account add ${typed}`, 0, `Account ${composed} added.\n`, `${created}account_created 1\n`],
      refused(`account add ${composed}`, `Account ${composed} exists already.`),
      [`key create --account ${typed} --name ${typed}`, 0, '<test key>\n', `key_created 1 1\n${key(1, composed)}`],
      [`account remove ${typed} --force`, 0, `Account ${composed} removed.\n`, 'account_removed 1\n'],
    ]);
    change(store, `INSERT INTO account (name, created_at) VALUES ('${typed}', 0)`);
    await expectRows(folder, [
      refused(`account remove ${composed}`, `There is no account ${composed}.`),
      [`account remove ${typed}`, 0, `Account ${typed} removed.\n`, 'account_removed 3\n'],
    ]);
  });
});

test('names are printed without what a terminal obeys: those of a restored file can be any', async () => {
  const { folder, run, store } = await withZoo(1);
  // ESC, CSI as one character, an override of the direction, and a second line.
  const name = '\u001b[2J\u009b2J\u202e\nzoo';
  const shown = '\\u001b[2J\\u009b2J\\u202e';
  change(
    store,
    `UPDATE account SET name = '${name}'; UPDATE api_key SET name = '${name}';
     INSERT INTO pet (name, category_id, status) VALUES ('${name}', 1, 'sold')`,
  );
  expect(await run('account', 'list')).toContain(`1   ${shown}\\u000azoo  `);
  expect(await run('key', 'list')).toContain(`  ${shown}\\u000azoo  ${shown}\\u000azoo  `);
  for (const command of ['account', 'key']) {
    const json = await run(command, 'list', '--json');
    expect(json).not.toMatch(/(?!\n)[\p{Cc}\p{Bidi_C}]/u);
    expect(JSON.parse(json)[0].name).toBe(name);
  }
  const animal = `{"id":1,"name":"${shown}\\nzoo","categoryId":1,"status":"sold"}\n`;
  expect((await runCli(['export'], { folder, isTTY: true })).stdout).toBe(animal);
  expect(await run('export')).toContain('\u009b2J\u202e');
  await expectRows(folder, [
    [['account', 'remove', name, '--force'], 0, `Account ${shown}\nzoo removed.\n`, 'account_removed 1\n'],
    refused(['account', 'remove', name], `There is no account ${shown}\nanimal-store: zoo.`),
  ]);
});

describe('key', () => {
  test('create, as text and as JSON, and list, which never shows the key', async () => {
    const { folder, keys, run } = await withZoo();
    const secret = await run('key', 'create', '--account', 'zoo', '--name', 'till');
    const args = ['--account', 'zoo', '--name', 'Zoe\u0301', '--scopes', 'pets:read', '--expires', '90d', '--json'];
    const { code, stdout, stderr } = await runCli(['key', 'create', ...args], { folder });
    const { key: shownKey, ...shown } = JSON.parse(stdout);
    expect(code).toBe(0);
    // Neither names nor secrets are in an event.
    expect(stderr).toMatch(/^\{"level":30,[^\n]+"event":"key_created","account":1,"key":2,"msg":"key created"\}\n$/);
    expect(shown).toEqual({
      id: 2,
      accountId: 1,
      account: 'zoo',
      name: 'Zo\u00e9',
      hint: shownKey.slice(0, 13),
      scopes: ['pets:read'],
      createdAt: instant,
      expiresAt: instant,
      revokedAt: null,
      lastUsedAt: null,
      deprecatedCalls: 0,
    });
    expect(Math.round((Date.parse(shown.expiresAt) - Date.parse(shown.createdAt)) / 86_400_000)).toBe(90);
    expect(await keys()).toEqual([expect.objectContaining({ id: 1, scopes, expiresAt: null }), shown]);
    for (const format of [[], ['--json']]) {
      const list = await run('key', 'list', ...format);
      expect(list).toContain(secret.slice(0, 13));
      expect(list).not.toContain(secret.slice(0, 14));
    }
  });

  test('list, for one account or all, prints the state and the use of each key', async () => {
    const { folder, store } = await withZoo(3);
    await expectRows(folder, [['account add circus', 0, 'Account circus added.\n', 'account_created 2\n'], revoked(2)]);
    expire(store, 3);
    change(store, `UPDATE api_key SET last_used_at = ${Date.now()}, deprecated_calls = 12 WHERE id = 1`);
    const row = (id: number, rest: string) => `${id}  zoo  till  <hint>  pets:read pets:write  ${rest}\n`;
    const list = [
      'ID  ACCOUNT  NAME  HINT  SCOPES  EXPIRES AT  LAST USED AT  DEPRECATED CALLS  STATE\n',
      row(1, 'never  <time>  12  active'),
      row(2, 'never  never  0  revoked'),
      row(3, '<time>  never  0  expired'),
    ].join('');
    await expectRows(folder, [
      ['key list', 0, list],
      ['key list --account zoo', 0, list],
      ['key list --account circus', 0, 'There are no keys.\n'],
      ['key list --account circus --json', 0, '[]\n'],
      refused('key list --account fair', 'There is no account fair.'),
    ]);
  });

  test('exit 1: no such account or key, and rotating a key that has ended or was rotated, which change nothing', async () => {
    const { folder, store, keys } = await withZoo(3);
    await expectRows(folder, [
      revoked(1),
      revoked(1),
      ['key rotate 3 --overlap 1h', 0, '<test key>\n', `key_rotated 1 4\n${key(4)}`],
    ]);
    expire(store, 2);
    const before = await keys();
    const overlapMs = Date.parse(before[2].expiresAt) - Date.parse(before[3].createdAt);
    expect(Math.round(overlapMs / 60_000)).toBe(60);
    const noKey = 'There is no key 90.';
    await expectRows(folder, [
      refused('key create --account circus --name a', 'There is no account circus.'),
      refused('key revoke 90', noKey),
      refused('key usage 90', noKey),
      ...[90, 1, 2, 3].map((id) => {
        const sentence = `Key ${id} cannot be rotated: only an active key can, and only once.`;
        return refused(`key rotate ${id} --overlap 1h`, sentence);
      }),
    ]);
    expect(await keys()).toEqual(before);
  });

  test('exit 1: an account has at most 50 active keys', async () => {
    const { folder } = await withZoo(50);
    const sentence = 'The account has 50 active keys, the most that it can have: revoke one first.';
    await expectRows(folder, [refused('key create --account zoo --name another', sentence)]);
  });

  test('usage prints the requests by day, newest first', async () => {
    const { folder, run } = await withZoo(1);
    await expectRows(folder, [['key usage 1', 0, 'Key 1 has no requests in 90 days.\n']]);
    const [first, last] = [new Date(Date.now() - 86_400_000), new Date()];
    const [yesterday, today] = [first, last].map((date) => date.toISOString().slice(0, 10));
    const errors = [{ code: 'invalid_parameter', at: last, operation: 'GET /v1/pets', requestId: 'r' }];
    const counts = { succeeded: 0, clientErrors: 3, rateLimited: 2, serverErrors: 1, deprecatedCalls: 7 };
    const none = { succeeded: 1200, clientErrors: 0, rateLimited: 0, serverErrors: 0, deprecatedCalls: 0 };
    await useStore(folder, ({ accounts }) =>
      accounts.recordUses([
        { id: 1, lastUsedAt: first, ...none },
        { id: 1, lastUsedAt: last, ...counts, errors },
      ]),
    );
    const table = [
      'DAY  SUCCEEDED  CLIENT ERRORS  RATE LIMITED  SERVER ERRORS  DEPRECATED CALLS  LAST ERROR  REQUESTS',
      `${today}  0  3  2  1  7  invalid_parameter <time>  6`,
      `${yesterday}  1200  0  0  0  0  never  1200\n`,
    ];
    await expectRows(folder, [['key usage 1', 0, table.join('\n')]]);
    const error = { code: 'invalid_parameter', at: last.toISOString() };
    expect(JSON.parse(await run('key', 'usage', '1', '--json'))).toMatchObject({
      id: 1,
      account: 'zoo',
      name: 'till',
      lastUsedAt: last.toISOString(),
      lastError: error,
      days: [{ day: today, ...counts, lastError: error }, { day: yesterday }],
    });
  });
});
