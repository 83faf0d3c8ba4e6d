/** The operator's commands for accounts, their one-time links and keys, health and migrate, and how all commands are called. */
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Readable, Writable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { run } from '../../../src/cli/program.ts';
import { type ApiKey, newSecret, type Scope, type Secret, scopes } from '../../../src/core/accounts.ts';
import { hashToken, type OneTimeLink } from '../../../src/core/people.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/store.ts';
import { temporaryFolder } from '../../support/app.ts';
import { change, commandErrorOf, query } from '../../support/commands.ts';
import { openFormClient } from '../../support/form-client.ts';
import { type Exit, launch, launchCli, runCli, type Server, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { open } from '../../support/store.ts';

interface TestStore {
  /** The working directory in which the default DATABASE_URL names the store. */
  folder: string;
  file: string;
  /** Runs a command, which must succeed. */
  run: (...args: string[]) => Promise<Exit>;
  /** Runs a command, which must fail, and returns its sentence. */
  refused: (...args: string[]) => Promise<string>;
  keys: () => Promise<ApiKey[]>;
  /** Sets a password for `zoo`, as the account pages do. */
  setPassword: () => Promise<void>;
  /** What the store knows about a printed link. */
  findLink: (link: string) => Promise<OneTimeLink | undefined>;
}

/** Creates a store with the account `zoo` and a key for each secret, with ids from 1. */
async function makeStore(...secrets: Secret[]): Promise<TestStore> {
  const folder = temporaryFolder();
  const file = path.join(folder, 'data/animal-store.db');
  const withStore = async <Result>(use: (store: Store) => Promise<Result>): Promise<Result> => {
    const store = await openStore(`sqlite:${file}`, { now: () => new Date() });
    return use(store).finally(() => store.close());
  };
  await withStore(async ({ accounts }) => {
    await accounts.addAccount('zoo');
    const granted: Scope[] = [...scopes];
    for (const secret of secrets)
      await accounts.addKey({ account: 'zoo', name: 'till', scopes: granted, lifetimeMs: null, secret });
  });

  return {
    folder,
    file,
    run: async (...args) => {
      const exit = await runCli(args, { folder });
      expect(exit).toMatchObject({ code: 0 });
      return exit;
    },
    refused: async (...args) => commandErrorOf(await runCli(args, { folder })),
    keys: async () => JSON.parse((await runCli(['key', 'list', '--json'], { folder })).stdout),
    setPassword: () => withStore(async ({ people }) => void (await people.setPassword(1, '$argon2id$'))),
    findLink: (link) => withStore(({ people }) => people.findLink(hashToken(link.slice(-43)) as Buffer)),
  };
}

const eventLine = /^\{"level":30,.*\n/gm;
/** What a command printed on stderr for people. */
const notesOf = ({ stderr }: Exit) => stderr.replace(eventLine, '');

const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const usageOf = (command: string) => new RegExp(`^Usage: animal-store ${command}`.trimEnd(), 'm');

describe('usage', () => {
  const commands = [
    '',
    'account',
    'account add',
    'account list',
    'account remove',
    'account invite',
    'account reset',
    'key',
    'key create',
    'key list',
    'key revoke',
    'key rotate',
    'key usage',
    'migrate',
    'check',
    'backup',
    'restore',
    'import',
    'export',
    'copy',
    'health',
  ];

  test('exit 0: every command prints its --help on stdout', async () => {
    const shown = async (command: string) => {
      const { code, stdout, stderr } = await runCli([...command.split(' ').filter(Boolean), '--help']);
      expect({ code, stderr }, command).toEqual({ code: 0, stderr: '' });
      expect(stdout).toMatch(usageOf(command));
      return `$ animal-store ${[command, '--help'].join(' ').trim()}\n${stdout}`;
    };
    const help = await Promise.all(commands.map(shown));
    await expect(help.join('\n')).toMatchFileSnapshot('cli-help.txt');
  });

  test('every --help has an example, which works', async () => {
    const examples = new Map<string, string>();
    for (const command of commands) {
      const { stdout } = await runCli([...command.split(' ').filter(Boolean), '--help']);
      const [, example = ''] = /\n\nExample:\n {2}animal-store (.+)\n$/.exec(stdout) ?? [];
      expect(example).toMatch(new RegExp(`^${command}`));
      // No PostgreSQL runs here.
      examples.set(command, example.replace(/postgres:\S+/, 'postgres://host'));
    }
    const { folder } = await makeStore();
    const prepared = ['account add', 'key create', 'key rotate', 'key revoke', 'backup', 'export', 'account invite'];
    for (const command of [...prepared, ...commands.filter((other) => !prepared.includes(other))]) {
      const { code, stderr } = await runCli(examples.get(command)?.split(' ') ?? [], {
        folder,
        env: { OPS_PORT: '1' },
      });
      const refusal = new Map([
        ['account remove', /has active keys/],
        ['account reset', /has no password yet/],
        ['copy', /the address must be postgres:/],
        ['health', /does not answer/],
      ]).get(command);
      expect([command, code, stderr]).toEqual([command, refusal ? 1 : 0, expect.stringMatching(refusal ?? '')]);
    }
  });

  test('--version prints the release, and the commit if it is known', async () => {
    const { version } = JSON.parse(readFileSync(path.join(projectFolder, 'package.json'), 'utf8'));
    const stdout = expect.stringMatching(new RegExp(`^${version}( \\([0-9a-f]{7}\\))?\n$`));
    expect(await runCli(['--version'])).toEqual({ code: 0, stdout, stderr: '' });
  });

  test.for([
    [['kee', 'list'], 'key'],
    [['keys'], 'key'],
    [['acount', 'list'], 'account'],
    [['exprot'], 'export'],
    [['key', 'lst'], 'list'],
    [['key', 'list', '--jsn'], '--json'],
    [['export', '--forse', 'animals.jsonl'], '--force'],
  ] as [string[], string][])('exit 2: %s is one typing error away from %s', async ([args, meant]) => {
    const { code, stderr } = await runCli(args);
    expect([code, stderr.split('\n')[1]]).toEqual([2, `Did you mean ${meant}?`]);
  });

  test.for([
    [['account', 'delete', 'zoo'], 'account', 'add, list, remove, invite, reset'],
    [['key', 'remove', '1'], 'key', 'create, list, revoke, rotate, usage'],
    [['restart'], '', 'account, key, migrate, check, backup, restore, import, export, copy, health'],
    [['help'], '', 'account, key, migrate, check, backup, restore, import, export, copy, health'],
  ])('exit 2: %s resembles no command, so all are named', async ([args, group, names]) => {
    const name = ['animal-store', group].filter(Boolean).join(' ');
    expect(await runCli(args as string[])).toEqual({
      code: 2,
      stdout: '',
      stderr: `error: unknown command '${args?.[group ? 1 : 0]}'\nUsage: ${name} [options] [command]\nCommands: ${names}\nHelp: ${name} --help\n`,
    });
  });

  test('exit 2: an unknown option shows the usage of its command in one line', async () => {
    expect(await runCli(['import', '--force', 'animals.jsonl'])).toEqual({
      code: 2,
      stdout: '',
      stderr:
        "error: unknown option '--force'\nUsage: animal-store import [options] <file>\nHelp: animal-store import --help\n",
    });
  });

  test.for(['npx --no animal-store -- --help', 'npm run cli -- --help'])(
    'exit 0: %s works from a checkout',
    async (command) => {
      const [program = '', ...args] = command.split(' ');
      const { code, stdout } = await launch(program, args, { folder: projectFolder }).end();
      expect(code).toBe(0);
      expect(stdout).toMatch(usageOf(''));
    },
  );

  test('a process exits with the code of its command', async () => {
    const exits = await Promise.all([['feed'], ['key', 'revoke', '1']].map((args) => launchCli(args).end()));
    expect(exits).toMatchObject([
      { code: 2, stdout: '', stderr: expect.stringMatching(/^error: unknown command 'feed'/) },
      { code: 1, stdout: '', stderr: expect.stringMatching(/^animal-store: DATABASE_URL: .+ does not exist/) },
    ]);
  });

  test.for([
    ['no command', '', []],
    ['an unknown command', '', ['feed']],
    ['an unknown option', '', ['--loud']],
    ['half a command', 'account', ['account']],
    ['an unknown subcommand', 'key', ['key', 'find']],
    ['a missing argument', 'account add', ['account', 'add']],
    ['a missing name', 'account reset', ['account', 'reset']],
    ['an argument too many', 'migrate', ['migrate', 'now']],
    ['a missing option', 'key create', ['key', 'create', '--account', 'zoo']],
    ['a missing --overlap', 'key rotate', ['key', 'rotate', '1']],
    ['an empty name', 'account add', ['account', 'add', '']],
    ['a name with a line break', 'account add', ['account', 'add', 'a\nb']],
    ['an unknown scope', 'key create', ['key', 'create', '--account', 'zoo', '--name', 'a', '--scopes', 'pets:eat']],
    [
      'a lifetime without a unit',
      'key create',
      ['key', 'create', '--account', 'zoo', '--name', 'a', '--expires', '90'],
    ],
    ['an id that is not a number', 'key revoke', ['key', 'revoke', 'till']],
    ['an unknown status', 'export', ['export', '--status', 'lost']],
    ['a backup to nowhere', 'backup', ['backup']],
  ] as [string, string, string[]][])('exit 2: %s prints the usage on stderr', async ([, command, args]) => {
    const { code, stdout, stderr } = await runCli(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(usageOf(command));
    if (args.length > 0 && command !== 'account') expect(stderr).toMatch(/^error: .+/);
  });

  const create = ['key', 'create', '--account', 'zoo', '--name', 'a'];
  const aLife = 'Give a whole number from 1 to 99999 and m, h or d, such as 24h.';
  const anOverlap = 'Give a whole number from 0 to 99999 and m, h or d, such as 24h.';
  const aName = 'Give 1 to 100 printable characters, without a space at either end.';
  const anId = 'Give the number that key list shows.';
  test.for([
    [[...create, '--expires', '90'], aLife],
    [[...create, '--expires', 'x90d'], aLife],
    [[...create, '--expires', '90dx'], aLife],
    [[...create, '--expires', '0d'], aLife],
    [[...create, '--expires', '00000m'], aLife],
    [[...create, '--expires', '100000d'], aLife],
    [['key', 'rotate', '1', '--overlap', '100000m'], anOverlap],
    [[...create, '--scopes', 'pets:read,pets:eat'], 'Give one or more of pets:read,pets:write.'],
    [[...create, '--name', ''], aName],
    [[...create, '--name', 'a '], aName],
    [['account', 'add', 'x'.repeat(101)], aName],
    [['account', 'add', ' zoo'], aName],
    [['account', 'invite', 'zoo '], aName],
    [['key', 'revoke', '7th'], anId],
    [['key', 'revoke', 'a7'], anId],
    [['key', 'usage', '7 '], anId],
  ] as [string[], string][])('exit 2: %s prints what to give instead', async ([args, sentence]) => {
    const { code, stderr } = await runCli(args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^error: .+ is invalid.*\. /)]);
    expect(stderr.split('\n')[0]?.endsWith(`. ${sentence}`), stderr).toBe(true);
  });
});

describe('account', () => {
  test('add, list and remove', async () => {
    const { run, setPassword } = await makeStore();
    await setPassword();
    expect(await run('account', 'add', 'Tierpark Süd')).toMatchObject({ stdout: 'Account Tierpark Süd added.\n' });
    expect(JSON.parse((await run('account', 'list', '--json')).stdout)).toEqual([
      { id: 1, name: 'zoo', createdAt: instant, hasPassword: true },
      { id: 2, name: 'Tierpark Süd', createdAt: instant, hasPassword: false },
    ]);
    expect((await run('account', 'list')).stdout).toMatch(
      /^ID {2}NAME +CREATED +PASSWORD\n1 {3}zoo +\d.*Z {2}yes\n2 {3}Tierpark Süd {2}\d.*Z {2}no\n$/,
    );
    expect(await run('account', 'remove', 'zoo')).toMatchObject({ stdout: 'Account zoo removed.\n' });
    await run('account', 'remove', 'Tierpark Süd');
    expect(await run('account', 'list')).toMatchObject({ stdout: 'There are no accounts.\n' });
    expect(await run('account', 'list', '--json')).toMatchObject({ stdout: '[]\n' });
  });

  test('stores a name in NFC, and finds it by each spelling; a name that the release 1.0.0 stored is found as it was typed', async () => {
    const { run, refused, file } = await makeStore();
    const [composed, typed] = ['Zo\u00e9', 'Zoe\u0301'];
    expect(await run('account', 'add', typed)).toMatchObject({ stdout: `Account ${composed} added.\n` });
    expect(await refused('account', 'add', composed)).toBe(`Account ${composed} exists already.`);
    await run('key', 'create', '--account', typed, '--name', `${typed} 2`);
    const [key] = JSON.parse((await run('key', 'list', '--account', typed, '--json')).stdout);
    expect(key).toMatchObject({ account: composed, name: `${composed} 2` });
    await run('account', 'remove', typed, '--force');
    change(file, `INSERT INTO account (name, created_at) VALUES ('${typed}', 0)`);
    expect(await refused('account', 'remove', composed)).toBe(`There is no account ${composed}.`);
    await run('key', 'create', '--account', typed, '--name', 'till');
    expect(await run('account', 'remove', typed, '--force')).toMatchObject({ stdout: `Account ${typed} removed.\n` });
  });

  test('exit 1: a name that exists already, and an unknown name', async () => {
    const { run, refused } = await makeStore();
    expect(await refused('account', 'add', 'zoo')).toBe('Account zoo exists already.');
    const longest = 'x'.repeat(100);
    await run('account', 'add', longest);
    expect(await refused('account', 'add', longest)).toBe(`Account ${longest} exists already.`);
    expect(await refused('account', 'remove', 'circus')).toBe('There is no account circus.');
  });

  test('exit 1: an account with active keys is removed only with --force', async () => {
    const { run, refused, keys } = await makeStore(newSecret(false), newSecret(false), newSecret(false));
    await run('key', 'revoke', '1');
    expect(await refused('account', 'remove', 'zoo')).toBe(
      'Account zoo has active keys (2, 3): revoke them, or use --force.',
    );
    expect(await keys()).toHaveLength(3);
    await run('account', 'remove', 'zoo', '--force');
    expect(await keys()).toEqual([]);
  });
});

describe('key', () => {
  test('create prints only the key on stdout; list never prints it', async () => {
    const { run } = await makeStore();
    const created = await run('key', 'create', '--account', 'zoo', '--name', 'till');
    expect(created.stdout).toMatch(/^ast_test_[0-9A-Za-z]{36}\n$/);
    expect(notesOf(created)).toBe('Key 1 of account zoo. It is shown only now:\n');
    for (const args of [[], ['--json']]) {
      const { stdout } = await run('key', 'list', ...args);
      expect(stdout).toContain(created.stdout.slice(0, 13));
      expect(stdout).not.toContain(created.stdout.slice(0, 14));
    }
  });

  test('create and list as JSON', async () => {
    const { run, keys } = await makeStore();
    const args = ['--account', 'zoo', '--name', 'till', '--scopes', 'pets:read', '--expires', '90d', '--json'];
    const { key, ...shown } = JSON.parse((await run('key', 'create', ...args)).stdout);
    expect(key).toMatch(/^ast_test_/);
    expect(shown).toEqual({
      id: 1,
      accountId: 1,
      account: 'zoo',
      name: 'till',
      hint: key.slice(0, 13),
      scopes: ['pets:read'],
      createdAt: instant,
      expiresAt: instant,
      revokedAt: null,
      lastUsedAt: null,
      deprecatedCalls: 0,
    });
    expect(Math.round((Date.parse(shown.expiresAt) - Date.parse(shown.createdAt)) / 86_400_000)).toBe(90);
    expect(await keys()).toEqual([shown]);
  });

  test('list, for one account or all, prints the state and the use of each key', async () => {
    const secrets = [newSecret(false), newSecret(false), newSecret(false)];
    const { run, file } = await makeStore(...secrets);
    await run('account', 'add', 'circus');
    await run('key', 'revoke', '2');
    expire(file, 3);
    const used = '2027-01-15T08:00:00.000Z';
    change(file, `UPDATE api_key SET last_used_at = ${Date.parse(used)}, deprecated_calls = 12 WHERE id = 1`);
    const { stdout } = await run('key', 'list');
    const cells = stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/ {2,}/));
    const row = (id: number, ...rest: unknown[]) => {
      const hint = `${secrets[id - 1]?.key.slice(0, 13)}…`;
      return [String(id), 'zoo', 'till', hint, 'pets:read,pets:write', ...rest];
    };
    expect(cells).toEqual([
      ['ID', 'ACCOUNT', 'NAME', 'KEY', 'SCOPES', 'STATE', 'EXPIRES', 'LAST USED', 'DEPRECATED CALLS'],
      row(1, 'active', 'never', used, '12'),
      row(2, 'revoked', 'never', 'never', '0'),
      row(3, 'expired', instant, 'never', '0'),
    ]);
    expect(await run('key', 'list', '--account', 'zoo')).toMatchObject({ stdout });
    expect(await run('key', 'list', '--account', 'circus')).toMatchObject({ stdout: 'There are no keys.\n' });
    expect(await run('key', 'list', '--account', 'circus', '--json')).toMatchObject({ stdout: '[]\n' });
  });

  test('rotate gives the new key the lifetime of the old one', async () => {
    const { run, keys } = await makeStore();
    await run('key', 'create', '--account', 'zoo', '--name', 'till', '--expires', '90d');
    await run('key', 'rotate', '1', '--overlap', '1h');
    const successor = (await keys())[1];
    expect(Date.parse(String(successor?.expiresAt)) - Date.parse(String(successor?.createdAt))).toBe(90 * 86_400_000);
  });

  test('rotate as JSON: the new key has the same account, name and scopes, and the old one expires', async () => {
    const { run, keys } = await makeStore(newSecret(false));
    const { key, ...successor } = JSON.parse((await run('key', 'rotate', '1', '--overlap', '24h', '--json')).stdout);
    const [old, young] = await keys();
    expect(key.slice(0, 13)).toBe(successor.hint);
    expect(successor).toMatchObject({ id: 2, account: 'zoo', name: 'till', scopes, expiresAt: null });
    expect(young).toEqual(successor);
    expect(old).toMatchObject({ id: 1, expiresAt: instant, revokedAt: null });
  });

  test('usage prints the requests by day, newest first, and a summary', async () => {
    const { run, file } = await makeStore(newSecret(false));
    expect(await run('key', 'usage', '1')).toMatchObject({
      stdout: 'Key 1 (till) of account zoo: 0 requests in 90 days, never used, no error.\n',
    });
    const [first, last] = [new Date(Date.now() - 86_400_000), new Date()];
    const lastError = { code: 'invalid_parameter', at: last } as const;
    const store = await open(`sqlite:${file}`);
    await store.accounts.recordUses([
      { id: 1, lastUsedAt: first, succeeded: 1200, deprecatedCalls: 7 },
      { id: 1, lastUsedAt: last, clientErrors: 3, rateLimited: 2, serverErrors: 1, deprecatedCalls: 0, lastError },
    ]);
    const dateOf = (date: Date) => date.toISOString().slice(0, 10);
    const error = `invalid_parameter at ${last.toISOString()}`;
    const { stdout } = await run('key', 'usage', '1');
    expect(stdout.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
      ['DAY', 'REQUESTS', '2XX', '4XX', 'RATE LIMITED', '5XX', 'DEPRECATED', 'LAST ERROR'],
      [dateOf(last), '6', '0', '3', '2', '1', '0', error],
      [dateOf(first), '1200', '1200', '0', '0', '0', '7'],
      [`Key 1 (till) of account zoo: 1206 requests in 90 days, last used ${last.toISOString()}, last error ${error}.`],
      [''],
    ]);
    const counts = { succeeded: 0, clientErrors: 0, rateLimited: 0, serverErrors: 0 };
    const shown = { code: 'invalid_parameter', at: last.toISOString() };
    expect(JSON.parse((await run('key', 'usage', '1', '--json')).stdout)).toEqual({
      ...{ id: 1, account: 'zoo', name: 'till', lastUsedAt: last.toISOString(), lastError: shown },
      days: [
        {
          ...{ day: dateOf(last), ...counts, clientErrors: 3, rateLimited: 2, serverErrors: 1 },
          ...{ deprecatedCalls: 0, lastError: shown },
        },
        { day: dateOf(first), ...counts, succeeded: 1200, deprecatedCalls: 7, lastError: null },
      ],
    });
  });

  test('exit 1: no such account, no such key, and rotating a key that has ended', async () => {
    const { run, refused, file, keys } = await makeStore(newSecret(false), newSecret(false));
    expect(await refused('key', 'create', '--account', 'circus', '--name', 'a')).toBe(
      'There is no account circus: add it first.',
    );
    expect(await refused('key', 'list', '--account', 'circus')).toBe('There is no account circus.');
    expect(await refused('key', 'revoke', '90')).toBe('There is no key 90.');
    expect(await refused('key', 'usage', '90')).toBe('There is no key 90.');
    expect(await refused('key', 'rotate', '9', '--overlap', '1h')).toBe('There is no key 9 that could be rotated.');
    expect(await run('key', 'revoke', '1')).toMatchObject({ stdout: 'Key 1 revoked.\n' });
    expect(await run('key', 'revoke', '1')).toMatchObject({ stdout: 'Key 1 revoked.\n' });
    expire(file, 2);
    const before = await keys();
    for (const [id, state] of ['revoked', 'expired'].entries())
      expect(await refused('key', 'rotate', String(id + 1), '--overlap', '1h')).toBe(
        `Key ${id + 1} is ${state}: only an active key can be rotated.`,
      );
    expect(await keys()).toEqual(before);
  });
});

describe('an account with 50 active keys', () => {
  const limit = 'Account zoo has 50 active keys, the most that an account can have: revoke one first.';
  const fullStore = () => makeStore(...Array.from({ length: 50 }, () => newSecret(false)));

  test('exit 1: create, until a key is revoked', async () => {
    const { run, refused, keys } = await fullStore();
    const create = ['key', 'create', '--account', 'zoo', '--name', 'another'];
    expect(await refused(...create)).toBe(limit);
    expect(await keys()).toHaveLength(50);
    await run('key', 'revoke', '7');
    await run(...create);
    expect(await refused(...create)).toBe(limit);
  });

  test('exit 1: rotate with an overlap, which changes nothing; without an overlap it works', async () => {
    const { run, refused, keys } = await fullStore();
    const before = await keys();
    expect(await refused('key', 'rotate', '7', '--overlap', '1h')).toBe(limit);
    expect(await keys()).toEqual(before);
    await run('key', 'rotate', '7', '--overlap', '0m');
    expect(await keys()).toHaveLength(51);
  });
});

describe('one-time links', () => {
  const hour = 3_600_000;
  /** The part of a printed link before the paths of the account pages. */
  const rootOf = (stdout: string) => /^(\S+)\/account\/links\/[\w-]{43}\n$/.exec(stdout)?.[1];
  const local = expect.stringMatching(/^http:\/\/127\.0\.0\.1:3000\/account\/links\/[\w-]{43}\n$/);
  const untilOf = (stderr: string) => Date.parse(/ until (.+):\n$/.exec(stderr)?.[1] ?? '');

  test('account invite prints only the link on stdout; the person chooses the name', async () => {
    const { run, findLink } = await makeStore();
    const invited = await run('account', 'invite');
    const { stdout } = invited;
    expect(stdout).toEqual(local);
    expect(notesOf(invited)).toMatch(/^The link for a new account works once, until [^:]+:\d\d:\d\d\.\d{3}Z:\n$/);
    expect(await findLink(stdout.trimEnd())).toEqual({ purpose: 'invitation', account: null });
  });

  test('account invite NAME is for an account without a password, and adds one that is missing', async () => {
    const { run, findLink } = await makeStore();
    const zoo = await run('account', 'invite', 'zoo');
    expect(zoo.stdout).toEqual(local);
    expect(notesOf(zoo)).toMatch(/^The link for account zoo works once, /);
    expect(await findLink(zoo.stdout.trimEnd())).toMatchObject({
      purpose: 'invitation',
      account: { id: 1, name: 'zoo' },
    });
    const fair = await run('account', 'invite', 'Fair 2');
    expect(notesOf(fair)).toMatch(/^Account Fair 2 added\.\nThe link for account Fair 2 works once, until /);
    expect(await findLink(fair.stdout.trimEnd())).toMatchObject({
      purpose: 'invitation',
      account: { id: 2, name: 'Fair 2', hasPassword: false },
    });
    expect(JSON.parse((await run('account', 'list', '--json')).stdout)).toHaveLength(2);
  });

  test('account reset is for an account with a password', async () => {
    const { run, findLink, setPassword } = await makeStore();
    await setPassword();
    const reset = await run('account', 'reset', 'zoo');
    const { stdout } = reset;
    expect(stdout).toEqual(local);
    expect(notesOf(reset)).toMatch(/^The link for account zoo works once, until /);
    expect(await findLink(stdout.trimEnd())).toMatchObject({ purpose: 'reset', account: { id: 1, hasPassword: true } });
  });

  test('an invitation is valid for 24 hours, a reset for 1 hour', async () => {
    const { run, file, setPassword } = await makeStore();
    await setPassword();
    for (const [args, lifetimeMs] of [
      [['invite'], 24 * hour],
      [['reset', 'zoo'], hour],
    ] as const) {
      change(file, 'DELETE FROM one_time_link');
      const start = Date.now();
      const until = untilOf((await run('account', ...args)).stderr);
      expect(until).toBeGreaterThanOrEqual(start + lifetimeMs);
      // The link does not end before the time that the operator was told.
      const [stored] = query<{ expires_at: number }>(file, 'SELECT expires_at FROM one_time_link');
      expect(stored?.expires_at).toBeGreaterThanOrEqual(until);
      expect(stored?.expires_at).toBeLessThanOrEqual(Date.now() + lifetimeMs);
    }
  });

  test('as JSON', async () => {
    const { run, findLink, setPassword } = await makeStore();
    const json = async (...args: string[]) => {
      const exit = await run('account', ...args, '--json');
      return [JSON.parse(exit.stdout), notesOf(exit)];
    };
    const shown = (account: string | null) => ({
      account,
      link: expect.stringMatching(/^http:\/\/127\.0\.0\.1:3000\/account\/links\/[\w-]{43}$/),
      expiresAt: instant,
    });
    expect(await json('invite')).toEqual([shown(null), '']);
    expect(await json('invite', 'fair')).toEqual([shown('fair'), 'Account fair added.\n']);
    await setPassword();
    const [reset, note] = await json('reset', 'zoo');
    expect([reset, note]).toEqual([shown('zoo'), '']);
    expect(await findLink(reset.link)).toMatchObject({ purpose: 'reset' });
  });

  test.for([
    [{}, 'http://127.0.0.1:3000'],
    [{ PORT: '8080' }, 'http://127.0.0.1:8080'],
    [{ HOST: '::2' }, 'http://[::2]:3000'],
    [{ HOST: '192.0.2.7' }, 'http://192.0.2.7:3000'],
    [{ BASE_URL: 'https://api.example.com/v1', PORT: '0' }, 'https://api.example.com'],
    [{ BASE_URL: 'http://[::1]:80/v1/store/v1' }, 'http://[::1]:80/v1/store'],
    [{ BASE_URL: 'https://api.example.com/v1', DEPLOYMENT: 'production' }, 'https://api.example.com'],
  ] as const)('with %j the link begins with %s', async ([env, root]) => {
    const exit = await runCli(['account', 'invite'], { env });
    expect([exit.code, rootOf(exit.stdout)]).toEqual([0, root]);
    expect(notesOf(exit)).toMatch(/^Created the store .+\.\nThe link for a new account works once, until .+:\n$/);
  });

  test.for([
    [{ DEPLOYMENT: 'production' }, 'http://127.0.0.1:3000'],
    [{ DEPLOYMENT: 'staging' }, 'http://127.0.0.1:3000'],
    [{ HOST: '0.0.0.0' }, 'http://127.0.0.1:3000'],
    [{ HOST: '::' }, 'http://[::1]:3000'],
  ] as const)('with %j and without BASE_URL, a note asks for it, and the link begins with %s', async ([env, root]) => {
    const exit = await runCli(['account', 'invite'], { env });
    expect([exit.code, rootOf(exit.stdout)]).toEqual([0, root]);
    expect(notesOf(exit)).toMatch(
      /^BASE_URL is not set: the link has an address of this machine\. Set BASE_URL to the public address\.\nCreated .+\.\nThe link .+:\n$/,
    );
  });

  test('exit 1: accounts for which the other command is right, and an unknown account', async () => {
    const { refused, setPassword } = await makeStore();
    expect(await refused('account', 'reset', 'circus')).toBe('There is no account circus.');
    expect(await refused('account', 'reset', 'zoo')).toBe('Account zoo has no password yet: use account invite zoo.');
    await setPassword();
    expect(await refused('account', 'invite', 'zoo')).toBe(
      'Account zoo has a password already: use account reset zoo.',
    );
  });

  const noPages = 'SIGN_UP is none: the server has no page for the link.';
  const noPort = "PORT is 0, so the link's address is not known: set BASE_URL.";
  const noSignUp = 'SIGN_UP is off: invitations are not accepted.';
  test.for([
    [{ SIGN_UP: 'none' }, ['invite'], noPages],
    [{ SIGN_UP: 'none' }, ['invite', 'fair'], noPages],
    [{ SIGN_UP: 'none' }, ['reset', 'zoo'], noPages],
    [{ PORT: '0' }, ['invite', 'fair'], noPort],
    [{ PORT: '0' }, ['reset', 'zoo'], noPort],
    [{ SIGN_UP: 'off' }, ['invite'], noSignUp],
    [{ SIGN_UP: 'off' }, ['invite', 'fair'], noSignUp],
  ] as const)('exit 1: with %j, account %j changes nothing', async ([env, args, sentence]) => {
    const { folder, file, setPassword } = await makeStore();
    await setPassword();
    expect(commandErrorOf(await runCli(['account', ...args], { folder, env }))).toBe(sentence);
    for (const table of ['one_time_link', "account WHERE name = 'fair'"])
      expect(query(file, `SELECT * FROM ${table}`)).toEqual([]);
  });

  test.for([{ SIGN_UP: 'off' }, { SIGN_UP: 'invitation' }])('account reset works with %j', async (env) => {
    const { folder, setPassword } = await makeStore();
    await setPassword();
    expect(await runCli(['account', 'reset', 'zoo'], { folder, env })).toMatchObject({ code: 0, stdout: local });
  });
});

describe('the trail', () => {
  const member = /^\{"level":30,"time":\d{13},"pid":\d+,"hostname":"[^"]+",(.+)\}\n$/;
  /** The events that a command prints, without the members that all have. */
  const eventsIn = ({ stderr }: Exit) =>
    (stderr.match(eventLine) ?? []).map((line) => JSON.parse(`{${member.exec(line)?.[1]}}`));

  test('each command prints what it changes, by ids, as a line of the log', async () => {
    const { run, setPassword } = await makeStore();
    await setPassword();
    const eventsOf = async (...args: string[]) => eventsIn(await run(...args));
    expect(await eventsOf('account', 'add', 'circus')).toEqual([
      { event: 'account_created', account: 2, msg: 'account created' },
    ]);
    expect(await eventsOf('key', 'create', '--account', 'circus', '--name', 'till')).toEqual([
      { event: 'key_created', account: 2, key: 1, msg: 'key created' },
    ]);
    expect(await eventsOf('key', 'rotate', '1', '--overlap', '24h')).toEqual([
      { event: 'key_rotated', account: 2, key: 2, msg: 'key rotated' },
    ]);
    expect(await eventsOf('key', 'revoke', '1')).toEqual([
      { event: 'key_revoked', account: 2, key: 1, msg: 'key revoked' },
    ]);
    expect(await eventsOf('account', 'invite', 'circus')).toEqual([
      { event: 'account_invited', account: 2, msg: 'account invited' },
    ]);
    expect(await eventsOf('account', 'invite')).toEqual([{ event: 'account_invited', msg: 'account invited' }]);
    expect(await eventsOf('account', 'invite', 'fair')).toEqual([
      { event: 'account_created', account: 3, msg: 'account created' },
      { event: 'account_invited', account: 3, msg: 'account invited' },
    ]);
    expect(await eventsOf('account', 'reset', 'zoo')).toEqual([
      { event: 'account_reset', account: 1, msg: 'account reset' },
    ]);
    expect(await eventsOf('account', 'remove', 'circus', '--force')).toEqual([
      { event: 'account_removed', account: 2, msg: 'account removed' },
    ]);
  });

  test('with --json, the events are on stderr, too, and have neither names nor secrets', async () => {
    const { run } = await makeStore();
    const created = await run('key', 'create', '--account', 'zoo', '--name', 'till', '--json');
    const invited = await run('account', 'invite', 'circus', '--json');
    const secrets = [JSON.parse(created.stdout).key, JSON.parse(invited.stdout).link.slice(-43)];
    expect(eventsIn(created)).toMatchObject([{ event: 'key_created' }]);
    expect(eventsIn(invited)).toMatchObject([{ event: 'account_created' }, { event: 'account_invited' }]);
    const lines = [created, invited].flatMap(({ stderr }) => stderr.match(eventLine)).join('');
    for (const word of ['zoo', 'till', 'circus', ...secrets]) expect(lines).not.toContain(word);
  });

  test('a command that only reads, or is refused, prints no event', async () => {
    const { run, refused } = await makeStore(newSecret(false));
    for (const what of ['account', 'key']) expect((await run(what, 'list')).stderr).toBe('');
    // These print sentences only.
    for (const args of [
      ['account', 'add', 'zoo'],
      ['account', 'remove', 'zoo'],
      ['account', 'remove', 'circus'],
      ['account', 'reset', 'zoo'],
      ['key', 'create', '--account', 'circus', '--name', 'till'],
      ['key', 'revoke', '9'],
      ['key', 'rotate', '9', '--overlap', '1h'],
    ])
      await refused(...args);
  });
});

/** Sets the expiry of a key to the past. */
function expire(file: string, id: number): void {
  change(file, `UPDATE api_key SET expires_at = created_at WHERE id = ${id}`);
}

describe('beside a running server', () => {
  const listed = (server: Server, { key }: Pick<Secret, 'key'>) => server.call(key, 'GET', '/v1/pets');

  test('a created key works at once, within its scopes', async () => {
    const { run, folder } = await makeStore();
    const server = await startServer({ folder });
    const args = ['--account', 'zoo', '--name', 'till', '--scopes', 'pets:read'];
    const { stdout } = await run('key', 'create', ...args);
    expect(await listed(server, { key: stdout.trim() })).toMatchObject({ status: 200 });
    expect(await server.call(stdout.trim(), 'POST', '/v1/pets', {})).toMatchObject({
      status: 403,
      json: { code: 'insufficient_scope' },
    });
  });

  test('a revoked key is rejected within a second', async () => {
    const secret = newSecret(false);
    const { run, folder } = await makeStore(secret);
    const server = await startServer({ folder });
    expect(await listed(server, secret)).toMatchObject({ status: 200 });
    await run('key', 'revoke', '1');
    const revoked = { status: 401, json: { code: 'revoked_api_key' } };
    await vi.waitFor(async () => expect(await listed(server, secret)).toMatchObject(revoked), { timeout: 1000 });
  });

  test('a rotated key works until the overlap ends, the new key at once', async () => {
    const secret = newSecret(false);
    const { run, folder, file } = await makeStore(secret);
    const server = await startServer({ folder });
    const rotate = async (id: number, overlap: string) => ({
      key: (await run('key', 'rotate', String(id), '--overlap', overlap)).stdout.trim(),
    });
    const second = await rotate(1, '24h');
    expect([await listed(server, secret), await listed(server, second)]).toMatchObject([
      { status: 200 },
      { status: 200 },
    ]);
    expire(file, 1);
    const third = await rotate(2, '0m');
    await setTimeout(1000);
    for (const ended of [secret, second])
      expect(await listed(server, ended)).toMatchObject({ status: 401, json: { code: 'expired_api_key' } });
    expect(await listed(server, third)).toMatchObject({ status: 200 });
  });

  test('an invited person whose name was typed in NFD signs in with each spelling', async () => {
    const { run, folder } = await makeStore();
    const server = await startServer({ folder });
    const [composed, typed] = ['Zo\u00e9', 'Zoe\u0301'];
    for (const command of ['invite', 'reset']) {
      const link = (await run('account', command, typed)).stdout.trimEnd();
      const password = `seven otters ${command} at noon`;
      const form = await openFormClient(server.url).post(link.replace(/^http:..[^/]*/, ''), { password });
      expect(form.status).toBe(303);
      for (const name of [composed, typed])
        expect((await openFormClient(server.url).post('/account/sign-in', { name, password })).status).toBe(303);
    }
  });

  test('removing an account removes its keys', async () => {
    const secret = newSecret(false);
    const { run, folder } = await makeStore(secret);
    const server = await startServer({ folder });
    await run('account', 'remove', 'zoo', '--force');
    expect(await listed(server, secret)).toMatchObject({ status: 401, json: { code: 'invalid_api_key' } });
  });

  test('staging rejects production keys, and production staging keys', async () => {
    const { folder } = await makeStore();
    const opened = async (DEPLOYMENT: string) => {
      const env = { DEPLOYMENT };
      const [server, { stdout }] = await Promise.all([
        startServer({ folder, env }),
        runCli(['key', 'create', '--account', 'zoo', '--name', DEPLOYMENT], { folder, env }),
      ]);
      return { server, key: stdout.trim() };
    };
    const [staging, production] = await Promise.all([opened('staging'), opened('production')]);
    expect(staging.key).toMatch(/^ast_test_/);
    expect(production.key).toMatch(/^ast_live_/);
    expect(await listed(staging.server, staging)).toMatchObject({ status: 200 });
    expect(await listed(production.server, production)).toMatchObject({ status: 200 });
    const invalid = { status: 401, json: { code: 'invalid_api_key' } };
    expect(await listed(staging.server, production)).toMatchObject(invalid);
    expect(await listed(production.server, staging)).toMatchObject(invalid);
  });

  test('health reports that it is ready', async () => {
    const { opsUrl, folder } = await startServer();
    const OPS_PORT = new URL(opsUrl()).port;
    for (const OPS_HOST of [undefined, '0.0.0.0', 'localhost'])
      expect(await runCli(['health'], { folder, env: { OPS_HOST, OPS_PORT } })).toEqual({
        code: 0,
        stdout: 'ready\n',
        stderr: '',
      });
  });
});

describe('health', () => {
  test('exit 1: nothing listens', async () => {
    // Nothing listens on port 1, and fetch would refuse to connect to it.
    expect(commandErrorOf(await runCli(['health'], { env: { OPS_PORT: '1' } }))).toBe(
      'http://127.0.0.1:1/readyz does not answer: connect ECONNREFUSED 127.0.0.1:1.',
    );
  });

  test.for([
    ['0.0.0.0', '127.0.0.1'],
    ['::', '[::1]'],
    ['::2', '[::2]'],
  ])('asks a server at OPS_HOST=%s at %s', async ([OPS_HOST, host]) => {
    expect(commandErrorOf(await runCli(['health'], { env: { OPS_HOST, OPS_PORT: '1' } }))).toContain(
      `http://${host}:1/readyz does not answer: `,
    );
  });

  test('exit 1: a server that does not respond within three seconds', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    onTestFinished(() => void silent.close());
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    expect(commandErrorOf(await runCli(['health'], { env: { OPS_PORT: String(port) } }))).toBe(
      `http://127.0.0.1:${port}/readyz does not answer: The operation was aborted due to timeout.`,
    );
  });

  test('exit 1: there is no ops port', async () => {
    expect(commandErrorOf(await runCli(['health'], { env: { OPS_PORT: 'off' } }))).toBe(
      'OPS_PORT is off: there is no ops port to ask.',
    );
  });

  test('exit 1: the server is stopping', async () => {
    const server = await startServer({ env: { LAME_DUCK_MS: '60000' } });
    const OPS_PORT = new URL(server.opsUrl()).port;
    void server.end('SIGTERM');
    await server.seen('stdout', /"msg":"stopping"/);
    expect(commandErrorOf(await runCli(['health'], { env: { OPS_PORT } }))).toBe('The server is not ready.');
  });

  test.for(['Hello', 'null'])('exit 1: another server listens, and responds with %s', async (text) => {
    const other = createServer((_request, response) => response.end(text)).listen(0, '127.0.0.1');
    onTestFinished(() => void other.close());
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    expect(commandErrorOf(await runCli(['health'], { env: { OPS_PORT: String(port) } }))).toBe(
      `http://127.0.0.1:${port}/readyz answers 200, but it is not an animal store.`,
    );
  });
});

describe('the store', () => {
  test('migrate creates it, then finds it up to date', async () => {
    const folder = temporaryFolder();
    expect(await runCli(['migrate'], { folder })).toEqual({
      code: 0,
      stdout:
        'Applied 0001_initial.sql, 0002_rendered_animals.sql, 0003_imports.sql, 0004_pet_revision.sql, 0005_account_pages.sql, 0006_bounds.sql, 0007_form_token.sql, 0008_key_usage.sql.\n',
      stderr: 'Created the store ./data/animal-store.db.\n',
    });
    expect(await runCli(['migrate'], { folder })).toEqual({
      code: 0,
      stdout: 'The store is up to date.\n',
      stderr: '',
    });
  });

  test('migrate does nothing if DATABASE_SERVER_ROLE is still set, also in .env, and says what grants now', async () => {
    const folder = temporaryFolder();
    writeFileSync(`${folder}/.env`, 'DATABASE_SERVER_ROLE=animal_store\n');
    expect(commandErrorOf(await runCli(['migrate'], { folder }))).toBe(
      'DATABASE_SERVER_ROLE is no longer a setting: remove it, and give the role its rights with psql and deploy/postgres/grants.sql (docs/operations.md).',
    );
    expect(existsSync(`${folder}/data`)).toBe(false);
  });

  test.for([
    ['account', 'list'],
    ['account', 'remove', 'zoo'],
    ['account', 'reset', 'zoo'],
    ['key', 'create', '--account', 'zoo', '--name', 'till'],
    ['key', 'list', '--json'],
    ['key', 'revoke', '1'],
    ['key', 'rotate', '1', '--overlap', '1h'],
  ])('exit 1: %s, %s does not create it: the sentence names the file', async (args) => {
    const folder = temporaryFolder();
    const env = { DATABASE_URL: 'sqlite:other/store.db' };
    expect(commandErrorOf(await runCli(args, { folder, env }))).toBe(
      'DATABASE_URL: other/store.db does not exist: start the server or run animal-store migrate to create it.',
    );
    expect(readdirSync(folder)).toEqual([]);
  });

  test.for([
    ['account', 'add', 'zoo'],
    ['account', 'invite', 'zoo'],
  ])('%s %s creates it, and says so', async (args) => {
    const folder = temporaryFolder();
    const created = 'Created the store ./data/animal-store.db.\n';
    expect(await runCli(args, { folder })).toMatchObject({ code: 0, stderr: expect.stringMatching(`^${created}`) });
    expect(notesOf(await runCli(['account', 'invite', 'other'], { folder }))).toMatch(
      /^Account other added\.\nThe link .+:\n$/,
    );
  });

  test('is named on a terminal', async () => {
    const { folder, file } = await makeStore(newSecret(false));
    const env = { DATABASE_URL: `sqlite:${file}` };
    const written: string[] = [];
    const stream = (isTTY: boolean) =>
      Object.assign(
        new Writable({
          write(chunk, _encoding, done) {
            if (isTTY) written.push(String(chunk));
            done();
          },
        }),
        { isTTY },
      );
    for (const args of [
      ['key', 'list'],
      ['key', 'revoke', '1'],
      ['account', 'add', 'circus'],
    ]) {
      const io = { cwd: folder, stdin: Readable.from([]), stdout: stream(false), stderr: stream(true) };
      expect(await run(args, env, io)).toBe(0);
    }
    expect(written.join('')).toBe(`Store: ${file}\n`.repeat(3));
  });

  test('is the one that .env names', async () => {
    const { folder, file } = await makeStore();
    const elsewhere = temporaryFolder();
    writeFileSync(path.join(elsewhere, '.env'), `DATABASE_URL=sqlite:${path.relative(elsewhere, file)}\n`);
    expect(await runCli(['account', 'list'], { folder: elsewhere })).toEqual(
      await runCli(['account', 'list'], { folder }),
    );
  });

  test('exit 1: .env cannot be read, so no other store is used instead', async () => {
    const { folder, refused } = await makeStore();
    mkdirSync(path.join(folder, '.env'));
    expect(await refused('account', 'list')).toMatch(/^\.env cannot be read: .+[^.]\.$/);
  });

  test('exit 1: the errors of all settings are printed', async () => {
    const env = { DATABASE_URL: 'mysql://example.com', PORT: 'http' };
    expect(commandErrorOf(await runCli(['account', 'list'], { env }))).toBe(
      'PORT must be a whole number from 0 to 65535.\nDATABASE_URL must be sqlite: and the path of a file, or postgres://user:password@host:port/database.',
    );
  });

  test('exit 1: a file that is not a store', async () => {
    const { folder, file, refused } = await makeStore();
    writeFileSync(file, 'Not a database. '.repeat(1000));
    expect(await refused('migrate')).toBe(
      'DATABASE_URL: ./data/animal-store.db cannot be opened: file is not a database.',
    );
    new Database(path.join(folder, 'other.db')).exec('CREATE TABLE pet (id INTEGER PRIMARY KEY)').close();
    expect(commandErrorOf(await runCli(['migrate'], { folder, env: { DATABASE_URL: 'sqlite:other.db' } }))).toBe(
      'DATABASE_URL: other.db is a database of another application.',
    );
  });

  test.for([
    ['a write', 'account', ['account', 'add', 'circus']],
    ['an export', 'pet', ['export']],
  ] as const)('exit 1: %s that fails in the database', async ([, table, command]) => {
    const { file, refused } = await makeStore();
    const database = new Database(file);
    const page = database.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').pluck().get(table) as number;
    const size = database.pragma('page_size', { simple: true }) as number;
    database.close();
    const bytes = readFileSync(file);
    writeFileSync(file, bytes.fill(0, (page - 1) * size, page * size));
    expect(await refused(...command)).toBe('The store cannot answer: database disk image is malformed.');
  });
});
