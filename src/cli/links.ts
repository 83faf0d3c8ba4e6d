/** The commands that print a one-time link, with which a person sets the password of an account. */
import type { Command } from 'commander';
import { signUpOf } from '../config.ts';
import type { Account } from '../core/accounts.ts';
import { type LinkPurpose, linkLifetimeMs, newToken } from '../core/people.ts';
import { localUrl } from '../server/listen.ts';
import type { Store } from '../store/store.ts';
import { name } from './arguments.ts';
import { CommandError, type Context, found, now } from './context.ts';

interface LinkOptions {
  json?: boolean;
}

export function inviteCommand(account: Command, context: Context): void {
  account
    .command('invite')
    .description('print a one-time link, valid for 24 hours, to create an account or to set its first password')
    .argument('[name]', 'the account, added if it does not exist (default: the person chooses a name)', name)
    .option('--json', 'print JSON')
    .action((accountName: string | undefined, { json }: LinkOptions) => {
      if (signUpOf(context.settings()) === 'off')
        throw new CommandError('SIGN_UP is off: invitations are not accepted.');
      const root = linkRoot(context);
      return context.withStore(
        async (store) => {
          const invited = accountName === undefined ? null : await findOrAdd(context, store, accountName);
          if (invited?.hasPassword)
            throw new CommandError(
              `Account ${invited.name} has a password already: use account reset ${invited.name}.`,
            );
          await printLink(context, store, { root, purpose: 'invitation', account: invited, json });
        },
        { create: true },
      );
    });
}

export function resetCommand(account: Command, context: Context): void {
  account
    .command('reset')
    .description('print a one-time link, valid for 1 hour, to replace a lost password')
    .argument('<name>', 'an account that has a password')
    .option('--json', 'print JSON')
    .action((given: string, { json }: LinkOptions) => {
      const root = linkRoot(context);
      return context.withStore(async (store) => {
        // Only with a name in NFC can a person sign in.
        const accountName = given.normalize('NFC');
        const person = found(await store.people.findPerson(accountName), `There is no account ${accountName}.`);
        if (!person.account.hasPassword)
          throw new CommandError(`Account ${accountName} has no password yet: use account invite ${accountName}.`);
        await printLink(context, store, { root, purpose: 'reset', account: person.account, json });
      });
    });
}

/** The address that the paths of the account pages are appended to. Throws CommandError if there are no pages, or their port is unknown. */
function linkRoot({ note, settings }: Context): string {
  const { BASE_URL, DEPLOYMENT, HOST, PORT, SIGN_UP } = settings();
  if (SIGN_UP === 'none') throw new CommandError('SIGN_UP is none: the server has no page for the link.');
  if (BASE_URL !== undefined) return BASE_URL.slice(0, -'/v1'.length);
  if (PORT === 0) throw new CommandError("PORT is 0, so the link's address is not known: set BASE_URL.");
  if (DEPLOYMENT !== 'development' || ['0.0.0.0', '::'].includes(HOST))
    note('BASE_URL is not set: the link has an address of this machine. Set BASE_URL to the public address.');
  return localUrl(HOST, PORT);
}

async function findOrAdd(
  { note, printEvent }: Context,
  { accounts, people }: Store,
  accountName: string,
): Promise<Account> {
  const person = await people.findPerson(accountName);
  if (person) return person.account;
  const added = found(await accounts.addAccount(accountName), `Account ${accountName} exists already.`);
  printEvent({ event: 'account_created', account: added.id });
  note(`Account ${accountName} added.`);
  return added;
}

interface LinkOf {
  root: string;
  purpose: LinkPurpose;
  account: Account | null;
  json: boolean | undefined;
}

/** Prints the link alone on stdout, so that a script can read it, and the explanation on stderr. */
async function printLink(
  { note, print, printEvent, printJson }: Context,
  { people }: Store,
  { root, purpose, account, json }: LinkOf,
): Promise<void> {
  const { token, hash } = newToken();
  const expiresAt = new Date(now().getTime() + linkLifetimeMs[purpose]);
  await people.addLink(hash, purpose, account?.id ?? null);
  printEvent({ event: purpose === 'invitation' ? 'account_invited' : 'account_reset', account: account?.id });
  const link = `${root}/account/links/${token}`;
  if (json) printJson({ account: account?.name ?? null, link, expiresAt });
  else {
    note(
      `The link for ${account ? `account ${account.name}` : 'a new account'} works once, until ${expiresAt.toISOString()}:`,
    );
    print(link);
  }
}
