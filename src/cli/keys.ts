/** The commands for API keys. */
import { type Accounts, type ApiKey, scopes as allScopes, newSecret, rejectionReason } from '../core/accounts.ts';
import { keptDays, lastErrorOf, requestsOf } from '../core/usage.ts';
import { findAccount } from './accounts.ts';
import { type Cli, CommandError, command, found, jsonOption, now } from './command.ts';

async function findKey(accounts: Accounts, id: number): Promise<ApiKey> {
  const keys = await accounts.listKeys();
  return found(
    keys.find((key) => key.id === id),
    `There is no key ${id}.`,
  );
}

const stateOf = (key: ApiKey) => rejectionReason(key, now())?.replace('_api_key', '') ?? 'active';
const createSecret = ({ settings }: Cli) => newSecret(settings().DEPLOYMENT === 'production');

function printKey({ printSecret }: Cli, secret: string, key: ApiKey, json: true | undefined): void {
  printSecret(
    secret,
    `Key ${key.id} of account ${key.account}. It is shown only now:`,
    json && { ...key, key: secret },
  );
}

export const keyCommands = {
  'key create': command({
    about: 'create a key and show it once',
    example: '--account website --name till --scopes pets:read --expires 90d',
    inputs: {
      '--account <account>': 'the account that owns the key',
      '--name <name>': 'what the key is for',
      '[--scopes <scopes>]': `what it may do (default: ${allScopes.join(',')})`,
      '[--expires <lifetime>]': 'how long it lives, such as 90d (default: for ever)',
      ...jsonOption,
    },
    run: (cli, { account: owner, name, scopes = [...allScopes], expires: lifetimeMs = null, json }) =>
      cli.withStore(async (store) => {
        const { name: account } = await findAccount(store, owner);
        const secret = createSecret(cli);
        const added = await store.accounts.addKey({ account, name, scopes, lifetimeMs, secret });
        const key = found(added, `There is no account ${account}.`);
        cli.printEvent({ event: 'key_created', account: key.accountId, key: key.id });
        printKey(cli, secret.key, key, json);
      }),
  }),

  'key list': command({
    about: 'list keys, without their secrets',
    inputs: { '[--account <account>]': 'only the keys of this account', ...jsonOption },
    run: (cli, { account, json }) =>
      cli.withStore(async (store) => {
        const owner = account === undefined ? undefined : await findAccount(store, account);
        const keys = await store.accounts.listKeys(owner?.name);
        if (json) return cli.printJson(keys);
        const rows = keys.map((key) => {
          const { accountId, createdAt, revokedAt, ...shown } = key;
          return { ...shown, state: stateOf(key) };
        });
        cli.printTable(rows, 'There are no keys.');
      }),
  }),

  'key revoke': command({
    about: 'revoke a key immediately',
    inputs: { '<id>': 'the id that key list shows' },
    run: (cli, { id }) =>
      cli.withStore(async ({ accounts }) => {
        const { accountId } = found(await accounts.revokeKey(id), `There is no key ${id}.`);
        cli.printEvent({ event: 'key_revoked', account: accountId, key: id });
        cli.print(`Key ${id} revoked.`);
      }),
  }),

  'key rotate': command({
    about: 'replace a key by a new one; both work during the overlap',
    example: '1 --overlap 24h',
    inputs: {
      '<id>': 'the id that key list shows',
      '--overlap <duration>': 'how long the old key still works, such as 24h',
      ...jsonOption,
    },
    run: (cli, { id, overlap, json }) =>
      cli.withStore(async ({ accounts }) => {
        const state = stateOf(await findKey(accounts, id));
        if (state !== 'active') throw new CommandError(`Key ${id} is ${state}: only an active key can be rotated.`);
        const secret = createSecret(cli);
        const rotated = await accounts.rotateKey(id, new Date(now().getTime() + overlap), secret);
        const key = found(rotated, `Key ${id} has been rotated already.`);
        cli.printEvent({ event: 'key_rotated', account: key.accountId, key: key.id });
        printKey(cli, secret.key, key, json);
      }),
  }),

  'key usage': command({
    about: `show the requests of a key in ${keptDays} days, by day (UTC)`,
    inputs: { '<id>': 'the id that key list shows', ...jsonOption },
    run: (cli, { id, json }) =>
      cli.withStore(async ({ accounts }) => {
        const { account, name, lastUsedAt } = await findKey(accounts, id);
        const used = await accounts.listUsage(id, keptDays);
        const days = used.toReversed();
        if (json) return cli.printJson({ id, account, name, lastUsedAt, lastError: lastErrorOf(used), days });
        const rows = days.map((day) => {
          const { lastError: error } = day;
          return {
            ...day,
            requests: requestsOf(day),
            lastError: error && `${error.code} at ${error.at.toISOString()}`,
          };
        });
        cli.printTable(rows, `Key ${id} has no requests in ${keptDays} days.`);
      }),
  }),
};
