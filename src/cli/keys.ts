/** The commands for API keys. */
import { type Command, Option } from 'commander';
import { newSecret, type Scope, type Secret, scopes } from '../accounts.ts';
import { readEnvironment } from '../server/environment.ts';
import { duration, keyId, name, scopeList } from './arguments.ts';
import { keyRow, print, printJson, printTable, showSecret } from './output.ts';
import { found, now, withStore } from './store.ts';

export function keyCommands(program: Command): void {
  const key = program.command('key').description('API keys').helpCommand(false);
  createCommand(key);
  listCommand(key);
  revokeCommand(key);
  rotateCommand(key);
}

function newSecretHere(): Secret {
  return newSecret(readEnvironment().DEPLOYMENT === 'production');
}

function createCommand(key: Command): void {
  key
    .command('create')
    .description('create a key and show it once')
    .requiredOption('--account <name>', 'its owner')
    .requiredOption('--name <name>', 'what it is for', name)
    .addOption(
      new Option('--scopes <list>', 'what it may do, separated by commas')
        .argParser(scopeList)
        .default([...scopes], scopes.join(',')),
    )
    .option('--expires <duration>', 'how long it lives, such as 90d (default: until revoked)', duration)
    .option('--json', 'as JSON')
    .action((options: { account: string; name: string; scopes: Scope[]; expires?: number; json?: boolean }) =>
      withStore(async ({ accounts }) => {
        const secret = newSecretHere();
        const { account: owner, name: what, scopes: granted, expires: lifetimeMs = null } = options;
        const added = await accounts.addKey({ account: owner, name: what, scopes: granted, lifetimeMs, secret });
        showSecret(secret, found(added, `There is no account ${options.account}: add it first.`), options.json);
      }),
    );
}

function listCommand(key: Command): void {
  key
    .command('list')
    .description('list keys; a key itself is never shown again')
    .option('--account <name>', 'only those of this account')
    .option('--json', 'as JSON')
    .action(({ account: owner, json }: { account?: string; json?: boolean }) =>
      withStore(async ({ accounts }) => {
        const keys = await accounts.listKeys(owner);
        if (owner !== undefined && keys.length === 0) {
          const owners = await accounts.listAccounts();
          found(
            owners.find(({ name: known }) => known === owner),
            `There is no account ${owner}.`,
          );
        }
        if (json) return printJson(keys);
        return printTable(keys.map(keyRow), 'There are no keys.');
      }),
    );
}

function revokeCommand(key: Command): void {
  key
    .command('revoke')
    .description('end a key now')
    .argument('<id>', 'as key list shows it', keyId)
    .action((id: number) =>
      withStore(async ({ accounts }) => {
        found(await accounts.revokeKey(id), `There is no key ${id}.`);
        print(`Key ${id} revoked.`);
      }),
    );
}

function rotateCommand(key: Command): void {
  key
    .command('rotate')
    .description(
      'create a successor with the same account, name, scopes and lifetime; the old key ends after the overlap',
    )
    .argument('<id>', 'as key list shows it', keyId)
    .requiredOption('--overlap <duration>', 'how long the old key goes on, such as 24h', duration)
    .option('--json', 'as JSON')
    .action((id: number, { overlap, json }: { overlap: number; json?: boolean }) =>
      withStore(async ({ accounts }) => {
        const secret = newSecretHere();
        const successor = await accounts.rotateKey(id, new Date(now().getTime() + overlap), secret);
        showSecret(secret, found(successor, `There is no key ${id} that could be rotated.`), json);
      }),
    );
}
