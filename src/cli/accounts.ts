/** The commands for accounts, and for the one-time links with which a person sets the password of one. */
import { signUpOf } from '../config.ts';
import { type Account, rejectionReason } from '../core/accounts.ts';
import { type LinkPurpose, linkLifetimeMs, newToken } from '../core/people.ts';
import { localUrl } from '../server/listen.ts';
import type { Store } from '../store/store.ts';
import { type Cli, type Commands, found, jsonOption, now, refuse } from './command.ts';

/** The release 1.0.0 stored names as they were typed, later ones store them in NFC. Rejects with CommandError. */
export async function findAccount({ people }: Store, name: string): Promise<Account> {
  const person = (await people.findPerson(name)) ?? (await people.findPerson(name.normalize('NFC')));
  return found(person, `There is no account ${name}.`).account;
}

async function addAccount(cli: Cli, { accounts }: Store, name: string, print: Cli['print']): Promise<Account> {
  const account = found(await accounts.addAccount(name), `Account ${name} exists already.`);
  cli.printEvent('account_created', account.id);
  print(`Account ${name} added.`);
  return account;
}

export const accountCommands: Commands = {
  'account add': {
    about: 'add an account, which owns API keys',
    inputs: { '<name>': 'a name that no account has yet' },
    run: (cli, { name }) => cli.withStore(async (store) => void (await addAccount(cli, store, name, cli.print)), true),
  },

  'account list': {
    about: 'list all accounts',
    inputs: jsonOption,
    run: (cli, { json }) =>
      cli.withStore(async ({ accounts }) => {
        const all = await accounts.listAccounts();
        if (json) cli.printJson(all);
        else cli.printTable(all, 'There are no accounts.');
      }),
  },

  'account remove': {
    about: 'remove an account and all its keys',
    inputs: { '<account>': 'its name', '[--force]': 'remove it even if it has active keys' },
    run: (cli, { account, force }) =>
      cli.withStore(async (store) => {
        const { id, name } = await findAccount(store, account);
        const active = (await store.accounts.listKeys(name)).filter((key) => !rejectionReason(key, now()));
        if (active.length > 0 && !force) {
          const ids = active.map((key) => key.id).join(', ');
          refuse(`Account ${name} has active keys (${ids}): revoke them, or use --force.`);
        }
        await store.accounts.removeAccount(name);
        cli.printEvent('account_removed', id);
        cli.print(`Account ${name} removed.`);
      }),
  },

  'account invite': {
    about: 'print a link to create an account or set a first password',
    inputs: {
      '[<name>]': 'the account, added if it is missing (default: the person chooses)',
      ...jsonOption,
    },
    async run(cli, { name, json }) {
      if (signUpOf(cli.settings()) === 'off') refuse('SIGN_UP is off: invitations are not accepted.');
      await printLink(cli, 'invitation', json, async (store) => {
        if (name === undefined) return null;
        const person = await store.people.findPerson(name);
        const account = person?.account ?? (await addAccount(cli, store, name, cli.note));
        if (account.hasPassword) refuse(`Account ${name} has a password already: use account reset ${name}.`);
        return account;
      });
    },
  },

  'account reset': {
    about: 'print a link to replace a lost password',
    inputs: { '<account>': 'the name of one that has a password', ...jsonOption },
    run: (cli, { account: name, json }) =>
      printLink(cli, 'reset', json, async (store) => {
        const account = await findAccount(store, name);
        if (!account.hasPassword) refuse(`Account ${name} has no password yet: use account invite ${name}.`);
        return account;
      }),
  },
};

/** `find` returns the account whose password the link sets; null: the person creates one. */
async function printLink(
  cli: Cli,
  purpose: LinkPurpose,
  json: true | undefined,
  find: (store: Store) => Promise<Account | null>,
): Promise<void> {
  const { BASE_URL, DEPLOYMENT, HOST, PORT, SIGN_UP } = cli.settings();
  if (SIGN_UP === 'none') refuse('SIGN_UP is none: the server has no page for the link.');
  if (!BASE_URL && DEPLOYMENT !== 'development')
    cli.note('BASE_URL is not set: the link has an address of this machine.');
  const root = BASE_URL?.slice(0, -'/v1'.length) ?? localUrl(HOST, PORT);
  await cli.withStore(async (store) => {
    const account = await find(store);
    const { token, hash } = newToken();
    const link = `${root}/account/links/${token}`;
    const expiresAt = new Date(now().getTime() + linkLifetimeMs[purpose]);
    await store.people.addLink(hash, purpose, account?.id ?? null);
    cli.printEvent(purpose === 'reset' ? 'account_reset' : 'account_invited', account?.id);
    const whose = account ? `account ${account.name}` : 'a new account';
    const note = `The link for ${whose} works once, until ${expiresAt.toISOString()}:`;
    cli.printSecret(link, note, json && { account: account?.name ?? null, link, expiresAt });
  }, purpose === 'invitation');
}
