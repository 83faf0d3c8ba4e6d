/** The operator's commands for accounts and keys, health and migrate, and how all commands are called. */
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type ApiKey, newSecret, type Scope, type Secret, scopes } from '../src/accounts.ts';
import { openRepository } from '../src/repository/open.ts';
import { temporaryFolder } from './support/app.ts';
import { change, commandErrorOf } from './support/commands.ts';
import { type Exit, launch, launchCli, runCli, type Server, startServer } from './support/process.ts';
import { projectFolder } from './support/project.ts';

interface TestStore {
  /** The working directory in which the default DATABASE_URL names the store. */
  folder: string;
  file: string;
  /** Runs a command, which must succeed. */
  run: (...args: string[]) => Promise<Exit>;
  /** Runs a command, which must fail, and returns its sentence. */
  refused: (...args: string[]) => Promise<string>;
  keys: () => Promise<ApiKey[]>;
}

/** Creates a store with the account `zoo` and a key for each secret, with ids from 1. */
async function makeStore(...secrets: Secret[]): Promise<TestStore> {
  const folder = temporaryFolder();
  const file = path.join(folder, 'data/animal-store.db');
  const store = await openRepository(`sqlite:${file}`, { now: () => new Date() });
  await store.accounts.addAccount('zoo');
  const granted: Scope[] = [...scopes];
  for (const secret of secrets)
    await store.accounts.addKey({ account: 'zoo', name: 'till', scopes: granted, lifetimeMs: null, secret });
  await store.close();

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
  };
}

const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const usageOf = (command: string) => new RegExp(`^Usage: animal-store ${command}`.trimEnd(), 'm');

describe('usage', () => {
  const commands = [
    '',
    'account',
    'account add',
    'account list',
    'account remove',
    'key',
    'key create',
    'key list',
    'key revoke',
    'key rotate',
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
      { code: 1, stdout: '', stderr: 'animal-store: There is no key 1.\n' },
    ]);
  });

  test.for([
    ['no command', '', []],
    ['an unknown command', '', ['feed']],
    ['an unknown option', '', ['--loud']],
    ['half a command', 'account', ['account']],
    ['an unknown subcommand', 'key', ['key', 'find']],
    ['a missing argument', 'account add', ['account', 'add']],
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
    ['an unknown format', 'export', ['export', '--format', 'xml']],
    ['an unknown status', 'export', ['export', '--status', 'lost']],
    ['a backup to nowhere', 'backup', ['backup']],
  ] as [string, string, string[]][])('exit 2: %s prints the usage on stderr', async ([, command, args]) => {
    const { code, stdout, stderr } = await runCli(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(usageOf(command));
    if (args.length > 0 && command !== 'account') expect(stderr).toMatch(/^error: .+/);
  });

  const create = ['key', 'create', '--account', 'zoo', '--name', 'a'];
  const aLife = 'Give a whole number and m, h or d, such as 24h.';
  const aName = 'Give 1 to 100 printable characters.';
  const anId = 'Give the number that key list shows.';
  test.for([
    [[...create, '--expires', '90'], aLife],
    [[...create, '--expires', 'x90d'], aLife],
    [[...create, '--expires', '90dx'], aLife],
    [[...create, '--scopes', 'pets:read,pets:eat'], 'Give one or more of pets:read,pets:write.'],
    [[...create, '--name', ''], aName],
    [['account', 'add', 'x'.repeat(101)], aName],
    [['key', 'revoke', '7th'], anId],
    [['key', 'revoke', 'a7'], anId],
  ] as [string[], string][])('exit 2: %s prints what to give instead', async ([args, sentence]) => {
    const { code, stderr } = await runCli(args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^error: .+ is invalid.*\. /)]);
    expect(stderr.split('\n')[0]?.endsWith(`. ${sentence}`), stderr).toBe(true);
  });
});

describe('account', () => {
  test('add, list and remove', async () => {
    const { run } = await makeStore();
    expect(await run('account', 'add', 'Tierpark Süd')).toMatchObject({ stdout: 'Account Tierpark Süd added.\n' });
    expect(JSON.parse((await run('account', 'list', '--json')).stdout)).toEqual([
      { id: 1, name: 'zoo', createdAt: instant },
      { id: 2, name: 'Tierpark Süd', createdAt: instant },
    ]);
    expect((await run('account', 'list')).stdout).toMatch(
      /^ID {2}NAME +CREATED\n1 {3}zoo +\d.*Z\n2 {3}Tierpark Süd {2}\d/,
    );
    expect(await run('account', 'remove', 'zoo')).toMatchObject({ stdout: 'Account zoo removed.\n' });
    await run('account', 'remove', 'Tierpark Süd');
    expect(await run('account', 'list')).toMatchObject({ stdout: 'There are no accounts.\n' });
    expect(await run('account', 'list', '--json')).toMatchObject({ stdout: '[]\n' });
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
    expect(created).toMatchObject({
      stdout: expect.stringMatching(/^ast_test_[0-9A-Za-z]{36}\n$/),
      stderr: 'Key 1 of account zoo. It is shown only now:\n',
    });
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

  test('exit 1: no such account, no such key, and rotating a revoked key', async () => {
    const { run, refused } = await makeStore(newSecret(false));
    expect(await refused('key', 'create', '--account', 'circus', '--name', 'a')).toBe(
      'There is no account circus: add it first.',
    );
    expect(await refused('key', 'list', '--account', 'circus')).toBe('There is no account circus.');
    expect(await refused('key', 'revoke', '90')).toBe('There is no key 90.');
    expect(await refused('key', 'rotate', '9', '--overlap', '1h')).toBe('There is no key 9 that could be rotated.');
    expect(await run('key', 'revoke', '1')).toMatchObject({ stdout: 'Key 1 revoked.\n' });
    expect(await run('key', 'revoke', '1')).toMatchObject({ stdout: 'Key 1 revoked.\n' });
    expect(await refused('key', 'rotate', '1', '--overlap', '1h')).toBe('There is no key 1 that could be rotated.');
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
      stdout: 'Applied 0001_initial.sql, 0002_rendered_animals.sql, 0003_imports.sql, 0004_pet_revision.sql.\n',
      stderr: '',
    });
    expect(await runCli(['migrate'], { folder })).toEqual({
      code: 0,
      stdout: 'The store is up to date.\n',
      stderr: '',
    });
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
    expect(await refused('migrate')).toBe('DATABASE_URL: ./data/animal-store.db is not an SQLite database.');
    new Database(path.join(folder, 'other.db')).exec('CREATE TABLE pet (id INTEGER PRIMARY KEY)').close();
    expect(commandErrorOf(await runCli(['migrate'], { folder, env: { DATABASE_URL: 'sqlite:other.db' } }))).toBe(
      'DATABASE_URL: other.db is a database of another application.',
    );
  });

  test('exit 1: a write that fails in the database', async () => {
    const { file, refused } = await makeStore();
    const database = new Database(file);
    const page = database.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'account'").pluck().get() as number;
    const size = database.pragma('page_size', { simple: true }) as number;
    database.close();
    const bytes = readFileSync(file);
    writeFileSync(file, bytes.fill(0, (page - 1) * size, page * size));
    expect(await refused('account', 'add', 'circus')).toBe(
      'The store cannot answer: database disk image is malformed.',
    );
  });
});
