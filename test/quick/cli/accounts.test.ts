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
  refusal,
  setPassword,
  useStore,
  withZoo,
} from '../../support/commands.ts';
import { runCli } from '../../support/process.ts';

const key = (id: number, account = 'zoo') => `Key ${id} of account ${account}. It is shown only now:\n`;

/** Sets the expiry of a key to the past. */
const expire = (file: string, id: number) =>
  change(file, `UPDATE api_key SET expires_at = created_at WHERE id = ${id}`);

describe('account', () => {
  test('add, list and remove', async () => {
    const { folder, run } = await commandFolder();
    const longest = 'x'.repeat(100);
    await expectRows(folder, [
      ['account add zoo', 0, 'Account zoo added.\n', `${created}account_created 1\n`],
      [['account', 'add', 'Tierpark Süd'], 0, 'Account Tierpark Süd added.\n', 'account_created 2\n'],
      ['account add zoo', 1, '', refusal('Account zoo exists already.')],
    ]);
    await setPassword(folder);
    expect(JSON.parse(await run('account', 'list', '--json'))).toEqual([
      { id: 1, name: 'zoo', createdAt: instant, hasPassword: true },
      { id: 2, name: 'Tierpark Süd', createdAt: instant, hasPassword: false },
    ]);
    await expectRows(folder, [
      ['account list', 0, 'ID  NAME  CREATED AT  HAS PASSWORD\n1  zoo  <time>  true\n2  Tierpark Süd  <time>  false\n'],
      ['key create --account zoo --name a', 0, '<test key>\n', `key_created 1 1\n${key(1)}`],
      ['key create --account zoo --name a', 0, '<test key>\n', `key_created 1 2\n${key(2)}`],
      ['key create --account zoo --name a', 0, '<test key>\n', `key_created 1 3\n${key(3)}`],
      ['key revoke 1', 0, 'Key 1 revoked.\n', 'key_revoked 1 1\n'],
      ['account remove circus', 1, '', refusal('There is no account circus.')],
      ['account remove zoo', 1, '', refusal('Account zoo has active keys (2, 3): revoke them, or use --force.')],
      ['account remove zoo --force', 0, 'Account zoo removed.\n', 'account_removed 1\n'],
      ['key list', 0, 'There are no keys.\n'],
      [['account', 'remove', 'Tierpark Süd'], 0, 'Account Tierpark Süd removed.\n', 'account_removed 2\n'],
      ['account list', 0, 'There are no accounts.\n'],
      ['account list --json', 0, '[]\n'],
      [`account add ${longest}`, 0, `Account ${longest} added.\n`, 'account_created 4\n'],
      [`account add ${longest}`, 1, '', refusal(`Account ${longest} exists already.`)],
    ]);
  });

  test('stores a name in NFC, and finds it by each spelling; a name that the release 1.0.0 stored is found as it was typed', async () => {
    const { folder, store } = await commandFolder();
    const [composed, typed] = ['Zo\u00e9', 'Zoe\u0301'];
    await expectRows(folder, [
      [`account add ${typed}`, 0, `Account ${composed} added.\n`, `${created}account_created 1\n`],
      [`account add ${composed}`, 1, '', refusal(`Account ${composed} exists already.`)],
      [`key create --account ${typed} --name ${typed}`, 0, '<test key>\n', `key_created 1 1\n${key(1, composed)}`],
      [`account remove ${typed} --force`, 0, `Account ${composed} removed.\n`, 'account_removed 1\n'],
    ]);
    change(store, `INSERT INTO account (name, created_at) VALUES ('${typed}', 0)`);
    await expectRows(folder, [
      [`account remove ${composed}`, 1, '', refusal(`There is no account ${composed}.`)],
      [`key create --account ${typed} --name till`, 0, '<test key>\n', `key_created 3 2\n${key(2, typed)}`],
      [`account remove ${typed} --force`, 0, `Account ${typed} removed.\n`, 'account_removed 3\n'],
    ]);
  });
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
      ...{ id: 2, accountId: 1, account: 'zoo', name: 'Zo\u00e9', hint: shownKey.slice(0, 13), scopes: ['pets:read'] },
      ...{ createdAt: instant, expiresAt: instant, revokedAt: null, lastUsedAt: null, deprecatedCalls: 0 },
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
    await expectRows(folder, [
      ['account add circus', 0, 'Account circus added.\n', 'account_created 2\n'],
      ['key revoke 2', 0, 'Key 2 revoked.\n', 'key_revoked 1 2\n'],
    ]);
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
      ['key list --account fair', 1, '', refusal('There is no account fair.')],
    ]);
  });

  test('rotate gives the new key the account, name, scopes and lifetime of the old one, which expires', async () => {
    const { run, keys } = await withZoo();
    const create = ['--account', 'zoo', '--name', 'till', '--scopes', 'pets:read', '--expires', '90d'];
    await run('key', 'create', ...create);
    const { key: secret, ...rotated } = JSON.parse(await run('key', 'rotate', '1', '--overlap', '24h', '--json'));
    const [old, young] = await keys();
    expect(secret.slice(0, 13)).toBe(rotated.hint);
    expect(rotated).toMatchObject({ id: 2, account: 'zoo', name: 'till', scopes: ['pets:read'] });
    expect(Date.parse(rotated.expiresAt) - Date.parse(rotated.createdAt)).toBe(90 * 86_400_000);
    expect(young).toEqual(rotated);
    expect(Math.abs(Date.parse(old.expiresAt) - Date.now() - 86_400_000)).toBeLessThan(60_000);
  });

  test('exit 1: no such account or key, and rotating a key that has ended or was rotated, which change nothing', async () => {
    const { folder, store, keys } = await withZoo(3);
    await expectRows(folder, [
      ['key revoke 1', 0, 'Key 1 revoked.\n', 'key_revoked 1 1\n'],
      ['key revoke 1', 0, 'Key 1 revoked.\n', 'key_revoked 1 1\n'],
      ['key rotate 3 --overlap 1h', 0, '<test key>\n', `key_rotated 1 4\n${key(4)}`],
    ]);
    expire(store, 2);
    const before = await keys();
    const noKey = refusal('There is no key 90.');
    await expectRows(folder, [
      ['key create --account circus --name a', 1, '', refusal('There is no account circus.')],
      ['key revoke 90', 1, '', noKey],
      ['key usage 90', 1, '', noKey],
      ...[90, 1, 2, 3].map((id): Row => {
        const sentence = `Key ${id} cannot be rotated: only an active key can, and only once.`;
        return [`key rotate ${id} --overlap 1h`, 1, '', refusal(sentence)];
      }),
    ]);
    expect(await keys()).toEqual(before);
  });

  test('exit 1: an account has at most 50 active keys, also while one is rotated', async () => {
    const { folder, keys } = await withZoo(50);
    const limit = refusal('The account has 50 active keys, the most that it can have: revoke one first.');
    const create = 'key create --account zoo --name another';
    const before = await keys();
    await expectRows(folder, [
      [create, 1, '', limit],
      ['key rotate 7 --overlap 1h', 1, '', limit],
    ]);
    expect(await keys()).toEqual(before);
    await expectRows(folder, [
      ['key rotate 7 --overlap 0m', 0, '<test key>\n', `key_rotated 1 51\n${key(51)}`],
      ['key revoke 8', 0, 'Key 8 revoked.\n', 'key_revoked 1 8\n'],
      [create, 0, '<test key>\n', `key_created 1 52\n${key(52)}`],
      [create, 1, '', limit],
    ]);
  });

  test('usage prints the requests by day, newest first', async () => {
    const { folder, run } = await withZoo(1);
    await expectRows(folder, [['key usage 1', 0, 'Key 1 has no requests in 90 days.\n']]);
    const [first, last] = [new Date(Date.now() - 86_400_000), new Date()];
    const lastError = { code: 'invalid_parameter', at: last } as const;
    await useStore(folder, ({ accounts }) =>
      accounts.recordUses([
        { id: 1, lastUsedAt: first, succeeded: 1200, deprecatedCalls: 7 },
        { id: 1, lastUsedAt: last, clientErrors: 3, rateLimited: 2, serverErrors: 1, deprecatedCalls: 0, lastError },
      ]),
    );
    const [yesterday, today] = [first, last].map((date) => date.toISOString().slice(0, 10));
    await expectRows(folder, [
      [
        'key usage 1',
        0,
        [
          'DAY  SUCCEEDED  CLIENT ERRORS  RATE LIMITED  SERVER ERRORS  DEPRECATED CALLS  LAST ERROR  REQUESTS',
          `${today}  0  3  2  1  0  invalid_parameter <time>  6`,
          `${yesterday}  1200  0  0  0  7  never  1200\n`,
        ].join('\n'),
      ],
    ]);
    const counts = { succeeded: 0, clientErrors: 0, rateLimited: 0, serverErrors: 0 };
    const error = { code: 'invalid_parameter', at: last.toISOString() };
    expect(JSON.parse(await run('key', 'usage', '1', '--json'))).toEqual({
      ...{ id: 1, account: 'zoo', name: 'till', lastUsedAt: last.toISOString(), lastError: error },
      days: [
        {
          ...{ ...counts, day: today, clientErrors: 3, rateLimited: 2, serverErrors: 1 },
          ...{ deprecatedCalls: 0, lastError: error },
        },
        { ...counts, day: yesterday, succeeded: 1200, deprecatedCalls: 7, lastError: null },
      ],
    });
  });

  test('of production begins with ast_live_, others with ast_test_', async () => {
    const { folder } = await withZoo();
    const create = 'key create --account zoo --name till';
    await expectRows(folder, [
      [create, 0, '<live key>\n', `key_created 1 1\n${key(1)}`, { DEPLOYMENT: 'production' }],
      [create, 0, '<test key>\n', `key_created 1 2\n${key(2)}`, { DEPLOYMENT: 'staging' }],
    ]);
  });
});
