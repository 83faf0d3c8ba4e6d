/** The commands for API keys. */
import { type Command, Option } from 'commander';
import { type ApiKey, KeyLimitError, newSecret, type Scope, type Secret, scopes } from '../core/accounts.ts';
import { limits } from '../core/limits.ts';
import { storedName } from './accounts.ts';
import { keyId, lifetime, name, overlap, scopeList } from './arguments.ts';
import { CommandError, type Context, found, now } from './context.ts';
import { keyUsageCommand } from './key-usage.ts';

export function keyCommands(program: Command, context: Context): void {
  const key = program.command('key').description('manage API keys').helpCommand(false);
  createKeyCommand(key, context);
  listKeysCommand(key, context);
  revokeKeyCommand(key, context);
  rotateKeyCommand(key, context);
  keyUsageCommand(key, context);
}

function createKeyCommand(key: Command, context: Context): void {
  key
    .command('create')
    .description('create a key and show it once')
    .requiredOption('--account <name>', 'the account that owns the key')
    .requiredOption('--name <name>', 'what the key is for', name)
    .addOption(
      new Option('--scopes <list>', 'what the key may do, separated by commas')
        .argParser(scopeList)
        .default([...scopes], scopes.join(',')),
    )
    .option('--expires <duration>', 'how long the key lives, such as 90d (default: until revoked)', lifetime)
    .option('--json', 'print JSON')
    .action((options: { account: string; name: string; scopes: Scope[]; expires?: number; json?: boolean }) =>
      context.withStore(async (store) => {
        const { accounts } = store;
        const secret = createSecret(context);
        const { name: keyName, scopes: granted, expires: lifetimeMs = null } = options;
        const account = await storedName(store, options.account);
        const added = await withinLimit(
          accounts.addKey({ account, name: keyName, scopes: granted, lifetimeMs, secret }),
          account,
        );
        const made = found(added, `There is no account ${account}: add it first.`);
        context.printEvent({ event: 'key_created', account: made.accountId, key: made.id });
        printSecret(context, secret, made, options.json);
      }),
    );
}

function listKeysCommand(key: Command, { printJson, printTable, withStore }: Context): void {
  key
    .command('list')
    .description('list keys; the keys themselves are shown only when they are created')
    .option('--account <name>', 'only the keys of this account')
    .option('--json', 'print JSON')
    .action(({ account: given, json }: { account?: string; json?: boolean }) =>
      withStore(async (store) => {
        const { accounts } = store;
        const account = given === undefined ? undefined : await storedName(store, given);
        const keys = await accounts.listKeys(account);
        if (account !== undefined && keys.length === 0) {
          const all = await accounts.listAccounts();
          found(
            all.find((known) => known.name === account),
            `There is no account ${account}.`,
          );
        }
        if (json) return printJson(keys);
        return printTable(keys.map(keyRow), 'There are no keys.');
      }),
    );
}

function revokeKeyCommand(key: Command, { print, printEvent, withStore }: Context): void {
  key
    .command('revoke')
    .description('revoke a key immediately')
    .argument('<id>', 'the id that key list shows', keyId)
    .action((id: number) =>
      withStore(async ({ accounts }) => {
        const { accountId } = found(await accounts.revokeKey(id), `There is no key ${id}.`);
        printEvent({ event: 'key_revoked', account: accountId, key: id });
        print(`Key ${id} revoked.`);
      }),
    );
}

function rotateKeyCommand(key: Command, context: Context): void {
  key
    .command('rotate')
    .description(
      'create a new key with the same account, name, scopes and lifetime; the old key expires after the overlap',
    )
    .argument('<id>', 'the id that key list shows', keyId)
    .requiredOption('--overlap <duration>', 'how long the old key still works, such as 24h', overlap)
    .option('--json', 'print JSON')
    .action((id: number, { overlap: overlapMs, json }: { overlap: number; json?: boolean }) =>
      context.withStore(async ({ accounts }) => {
        const secret = createSecret(context);
        const missing = `There is no key ${id} that could be rotated.`;
        const old = found(
          (await accounts.listKeys()).find((one) => one.id === id),
          missing,
        );
        const state = stateOf(old);
        if (state !== 'active') throw new CommandError(`Key ${id} is ${state}: only an active key can be rotated.`);
        const oldExpiresAt = new Date(now().getTime() + overlapMs);
        const successor = found(await withinLimit(accounts.rotateKey(id, oldExpiresAt, secret), old.account), missing);
        context.printEvent({ event: 'key_rotated', account: successor.accountId, key: successor.id });
        printSecret(context, secret, successor, json);
      }),
    );
}

function createSecret({ settings }: Context): Secret {
  return newSecret(settings().DEPLOYMENT === 'production');
}

/** Rejects with CommandError instead of KeyLimitError, which does not name the account. */
function withinLimit(change: Promise<ApiKey | undefined>, account: string): Promise<ApiKey | undefined> {
  return change.catch((error: unknown) => {
    if (!(error instanceof KeyLimitError)) throw error;
    throw new CommandError(
      `Account ${account} has ${limits.activeKeys} active keys, the most that an account can have: revoke one first.`,
    );
  });
}

/** Prints the key alone on stdout, so that a script can read it, and the explanation on stderr. */
function printSecret(
  { note, print, printJson }: Context,
  secret: Secret,
  key: ApiKey,
  json: boolean | undefined,
): void {
  if (json) printJson({ ...key, key: secret.key });
  else {
    note(`Key ${key.id} of account ${key.account}. It is shown only now:`);
    print(secret.key);
  }
}

function stateOf({ revokedAt, expiresAt }: ApiKey): string {
  if (revokedAt) return 'revoked';
  return expiresAt && expiresAt <= now() ? 'expired' : 'active';
}

function keyRow(key: ApiKey): Record<string, string | number> {
  return {
    id: key.id,
    account: key.account,
    name: key.name,
    key: `${key.hint}…`,
    scopes: key.scopes.join(','),
    state: stateOf(key),
    expires: key.expiresAt?.toISOString() ?? 'never',
    'last used': key.lastUsedAt?.toISOString() ?? 'never',
    'deprecated calls': key.deprecatedCalls,
  };
}
