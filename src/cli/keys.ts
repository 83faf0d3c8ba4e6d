/** The commands for API keys. */
import { type ApiKey, scopes as allScopes, newSecret, rejectionReason } from '../core/accounts.ts';
import { keptDays, requestsOf } from '../core/usage.ts';
import { findAccount } from './accounts.ts';
import { type Cli, type Commands, found, jsonOption, now } from './command.ts';

const idInput = { '<id>': 'the id that key list shows' };

const stateOf = (key: ApiKey) => rejectionReason(key, now())?.replace('_api_key', '') ?? 'active';

function printKey({ printSecret }: Cli, secret: string, key: ApiKey, json: true | undefined): void {
  printSecret(
    secret,
    `Key ${key.id} of account ${key.account}. It is shown only now:`,
    json && { ...key, key: secret },
  );
}

export const keyCommands: Commands = {
  'key create': {
    about: 'create a key and show it once',
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
        const secret = newSecret(cli.settings().DEPLOYMENT === 'production');
        const added = await store.accounts.addKey({ account, name, scopes, lifetimeMs, secret });
        const key = found(added, `There is no account ${account}.`);
        cli.printEvent('key_created', key.accountId, key.id);
        printKey(cli, secret.key, key, json);
      }),
  },

  'key list': {
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
  },

  'key revoke': {
    about: 'revoke a key: within a second, servers reject it',
    inputs: idInput,
    run: (cli, { id }) =>
      cli.withStore(async ({ accounts }) => {
        const { accountId } = found(await accounts.revokeKey(id), `There is no key ${id}.`);
        cli.printEvent('key_revoked', accountId, id);
        cli.print(`Key ${id} revoked.`);
      }),
  },

  'key rotate': {
    about: 'replace a key by a new one; both work during the overlap',
    inputs: {
      ...idInput,
      '--overlap <duration>': 'how long the old key still works, such as 24h',
      ...jsonOption,
    },
    run: (cli, { id, overlap, json }) =>
      cli.withStore(async ({ accounts }) => {
        const secret = newSecret(cli.settings().DEPLOYMENT === 'production');
        const rotated = await accounts.rotateKey(id, new Date(now().getTime() + overlap), secret);
        const { key } = found(rotated, `Key ${id} cannot be rotated: only an active key can, and only once.`);
        cli.printEvent('key_rotated', key.accountId, key.id);
        printKey(cli, secret.key, key, json);
      }),
  },

  'key usage': {
    about: `show the requests of a key in ${keptDays} days, by day (UTC)`,
    inputs: { ...idInput, ...jsonOption },
    run: (cli, { id, json }) =>
      cli.withStore(async ({ accounts }) => {
        const [next] = await accounts.keysFrom(id, 1);
        const { account, name, lastUsedAt } = found(next?.id === id ? next : undefined, `There is no key ${id}.`);
        const used = await accounts.listUsage(id, keptDays);
        const days = used.toReversed();
        const lastError = days.find((day) => day.lastError)?.lastError ?? null;
        if (json) return cli.printJson({ id, account, name, lastUsedAt, lastError, days });
        const rows = days.map((day) => ({ ...day, requests: requestsOf(day) }));
        cli.printTable(rows, `Key ${id} has no requests in ${keptDays} days.`);
      }),
  },
};
