/** The commands for accounts, and for the one-time links with which a person sets the password of one. */
import { signUpOf } from '../config.ts';
import { type Account, rejectionReason } from '../core/accounts.ts';
import { type LinkPurpose, linkLifetimeMs, newToken } from '../core/people.ts';
import { localUrl } from '../server/listen.ts';
import type { Store } from '../store/store.ts';
import { type Cli, CommandError, command, found, jsonOption, now } from './command.ts';

/** The release 1.0.0 stored names as they were typed, later ones store them in NFC. Rejects with CommandError. */
export async function findAccount({ people }: Store, name: string): Promise<Account> {
  const person = (await people.findPerson(name)) ?? (await people.findPerson(name.normalize('NFC')));
  return found(person, `There is no account ${name}.`).account;
}

async function addAccount({ printEvent }: Cli, { accounts }: Store, name: string): Promise<Account> {
  const account = found(await accounts.addAccount(name), `Account ${name} exists already.`);
  printEvent({ event: 'account_created', account: account.id });
  return account;
}

export const accountCommands = {
  'account add': command({
    about: 'add an account, which owns API keys',
    inputs: { '<name>': 'a name that no account has yet' },
    run: (cli, { name }) =>
      cli.withStore(async (store) => {
        await addAccount(cli, store, name);
        cli.print(`Account ${name} added.`);
      }, true),
  }),

  'account list': command({
    about: 'list all accounts',
    inputs: jsonOption,
    run: (cli, { json }) =>
      cli.withStore(async ({ accounts }) => {
        const all = await accounts.listAccounts();
        if (json) cli.printJson(all);
        else cli.printTable(all, 'There are no accounts.');
      }),
  }),

  'account remove': command({
    about: 'remove an account and all its keys',
    inputs: { '<account>': 'its name', '[--force]': 'remove it even if it has active keys' },
    run: (cli, { account, force }) =>
      cli.withStore(async (store) => {
        const { id, name } = await findAccount(store, account);
        const active = (await store.accounts.listKeys(name)).filter((key) => !rejectionReason(key, now()));
        if (active.length > 0 && !force) {
          const ids = active.map((key) => key.id).join(', ');
          throw new CommandError(`Account ${name} has active keys (${ids}): revoke them, or use --force.`);
        }
        await store.accounts.removeAccount(name);
        cli.printEvent({ event: 'account_removed', account: id });
        cli.print(`Account ${name} removed.`);
      }),
  }),

  'account invite': command({
    about: 'print a link to create an account or set a first password',
    inputs: {
      '[<name>]': 'the account, added if it is missing (default: the person chooses)',
      ...jsonOption,
    },
    async run(cli, { name, json }) {
      if (signUpOf(cli.settings()) === 'off') throw new CommandError('SIGN_UP is off: invitations are not accepted.');
      const root = linkRoot(cli);
      await cli.withStore(async (store) => {
        const account = name === undefined ? null : await findOrAdd(cli, store, name);
        if (account?.hasPassword)
          throw new CommandError(`Account ${name} has a password already: use account reset ${name}.`);
        await printLink(cli, store, 'invitation', account, root, json);
      }, true);
    },
  }),

  'account reset': command({
    about: 'print a link to replace a lost password',
    inputs: { '<account>': 'the name of one that has a password', ...jsonOption },
    async run(cli, { account: given, json }) {
      const root = linkRoot(cli);
      await cli.withStore(async (store) => {
        const account = await findAccount(store, given);
        if (!account.hasPassword)
          throw new CommandError(`Account ${given} has no password yet: use account invite ${given}.`);
        await printLink(cli, store, 'reset', account, root, json);
      });
    },
  }),
};

/** The address that the paths of the account pages are appended to. Throws CommandError if there are no pages, or their port is unknown. */
function linkRoot({ note, settings }: Cli): string {
  const { ACCOUNT_PAGES, BASE_URL, DEPLOYMENT, HOST, PORT } = settings();
  if (ACCOUNT_PAGES === 'off') throw new CommandError('ACCOUNT_PAGES is off: the server has no page for the link.');
  if (BASE_URL !== undefined) return BASE_URL.slice(0, -'/v1'.length);
  if (PORT === 0) throw new CommandError("PORT is 0, so the link's address is not known: set BASE_URL.");
  if (DEPLOYMENT !== 'development' || ['0.0.0.0', '::'].includes(HOST))
    note('BASE_URL is not set: the link has an address of this machine. Set BASE_URL to the public address.');
  return localUrl(HOST, PORT);
}

async function findOrAdd(cli: Cli, store: Store, name: string): Promise<Account> {
  const person = await store.people.findPerson(name);
  if (person) return person.account;
  const added = await addAccount(cli, store, name);
  cli.note(`Account ${name} added.`);
  return added;
}

async function printLink(
  cli: Cli,
  { people }: Store,
  purpose: LinkPurpose,
  account: Account | null,
  root: string,
  json: true | undefined,
): Promise<void> {
  const { token, hash } = newToken();
  const link = `${root}/account/links/${token}`;
  const expiresAt = new Date(now().getTime() + linkLifetimeMs[purpose]);
  await people.addLink(hash, purpose, account?.id ?? null);
  cli.printEvent({ event: purpose === 'reset' ? 'account_reset' : 'account_invited', account: account?.id });
  const whose = account ? `account ${account.name}` : 'a new account';
  const note = `The link for ${whose} works once, until ${expiresAt.toISOString()}:`;
  cli.printSecret(link, note, json && { account: account?.name ?? null, link, expiresAt });
}
