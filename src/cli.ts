#!/usr/bin/env node
/** The operator's commands. Exit codes: 0 done, 1 refused or failed, 2 not understood. */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { Command, CommanderError, Option } from 'commander';
import { newSecret, type Scope, type Secret, scopes } from './accounts.ts';
import { duration, keyId, name, scopeList } from './cli/arguments.ts';
import { keyRow, print, printJson, printTable, showSecret, stateOf } from './cli/output.ts';
import { ConfigError } from './config.ts';
import { Failure } from './errors.ts';
import { complain, readEnvironment } from './main/environment.ts';
import { openRepository } from './repository/open.ts';
import { OpenError, type Repository } from './repository/repository.ts';

const healthTimeoutMs = 3000;

/** A refusal that the operator reads as one sentence. */
class Refusal extends Error {}

async function withStore<Result>(
  use: (store: Repository) => Promise<Result>,
  onMigration?: (name: string) => void,
): Promise<Result> {
  const store = await openRepository(readEnvironment().DATABASE_URL, { now: () => new Date(), onMigration });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

function newSecretHere(): Secret {
  return newSecret(readEnvironment().DEPLOYMENT === 'production');
}

function found<Found>(value: Found | undefined, sentence: string): Found {
  if (value === undefined) throw new Refusal(sentence);
  return value;
}

const program = new Command('animal-store')
  .description(
    'Operates the animal store. Settings, DATABASE_URL first of all, come from the environment and from .env.',
  )
  .exitOverride()
  .showHelpAfterError()
  .helpCommand(false);

const account = program.command('account').description('the owners of API keys').helpCommand(false);

account
  .command('add')
  .description('add an account')
  .argument('<name>', 'its name, not taken yet', name)
  .action((accountName: string) =>
    withStore(async ({ accounts }) => {
      found(await accounts.addAccount(accountName), `Account ${accountName} exists already.`);
      print(`Account ${accountName} added.`);
    }),
  );

account
  .command('list')
  .description('list all accounts')
  .option('--json', 'as JSON')
  .action(({ json }: { json?: boolean }) =>
    withStore(async ({ accounts }) => {
      const all = await accounts.listAccounts();
      if (json) return printJson(all);
      const rows = all.map(({ id, name: accountName, createdAt }) => ({
        id,
        name: accountName,
        created: createdAt.toISOString(),
      }));
      return printTable(rows, 'There are no accounts.');
    }),
  );

account
  .command('remove')
  .description('remove an account and all its keys')
  .argument('<name>')
  .option('--force', 'also while it has active keys')
  .action((accountName: string, { force }: { force?: boolean }) =>
    withStore(async ({ accounts }) => {
      const active = (await accounts.listKeys(accountName)).filter((key) => stateOf(key) === 'active');
      if (active.length > 0 && !force) {
        throw new Refusal(
          `Account ${accountName} has active keys (${active.map(({ id }) => id).join(', ')}): revoke them, or use --force.`,
        );
      }
      found(await accounts.removeAccount(accountName), `There is no account ${accountName}.`);
      print(`Account ${accountName} removed.`);
    }),
  );

const key = program.command('key').description('API keys').helpCommand(false);

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
          owners.find(({ name }) => name === owner),
          `There is no account ${owner}.`,
        );
      }
      if (json) return printJson(keys);
      return printTable(keys.map(keyRow), 'There are no keys.');
    }),
  );

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
      const successor = await accounts.rotateKey(id, new Date(Date.now() + overlap), secret);
      showSecret(secret, found(successor, `There is no key ${id} that could be rotated.`), json);
    }),
  );

program
  .command('migrate')
  .description('bring the store to the schema of this release')
  .action(async () => {
    const applied: string[] = [];
    await withStore(
      async () => undefined,
      (file) => applied.push(file),
    );
    print(applied.length === 0 ? 'The store is up to date.' : `Applied ${applied.join(', ')}.`);
  });

program
  .command('health')
  .description('ask the server at OPS_HOST and OPS_PORT whether it is ready')
  .action(async () => {
    const { OPS_HOST, OPS_PORT } = readEnvironment();
    if (OPS_PORT === 'off') throw new Refusal('OPS_PORT is off: there is no door to ask at.');
    const host =
      { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[OPS_HOST] ?? (OPS_HOST.includes(':') ? `[${OPS_HOST}]` : OPS_HOST);
    const url = `http://${host}:${OPS_PORT}/readyz`;
    // Not fetch, which refuses some ports, such as 6000 and 10080.
    const request = get(url, { signal: AbortSignal.timeout(healthTimeoutMs) });
    const [response] = (await once(request, 'response').catch((error: NodeJS.ErrnoException) => {
      // A time-out is told in the cause; where both addresses of localhost fail there is only a code.
      const reason = (error.cause as Error | undefined)?.message || error.message || error.code;
      throw new Refusal(`${url} does not answer: ${reason}.`);
    })) as [IncomingMessage];
    const body = (await json(response).catch(() => null)) as { status?: string; code?: string } | null;
    if (body?.code === 'service_unavailable') throw new Refusal('The server is not ready.');
    if (body?.status !== 'ready')
      throw new Refusal(`${url} answers ${response.statusCode}, but not as the animal store does.`);
    print('ready');
  });

/** What the operator reads of an error; undefined where it is a bug of ours. */
function sentenceOf(error: unknown): string | undefined {
  if (error instanceof Refusal || error instanceof ConfigError) return error.message;
  if (error instanceof OpenError) return `DATABASE_URL: ${error.message}`;
  if (error instanceof Failure) return `The store cannot answer: ${(error.cause as Error).message}.`;
  return undefined;
}

try {
  await program.parseAsync();
} catch (error) {
  const sentence = sentenceOf(error);
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else if (sentence) {
    complain(sentence);
    process.exitCode = 1;
    /* c8 ignore next -- a bug of ours, with its stack */
  } else throw error;
}
