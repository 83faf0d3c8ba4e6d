/** The commands for accounts. */
import type { Command } from 'commander';
import { rejectionReason } from '../core/accounts.ts';
import type { Store } from '../store/store.ts';
import { name } from './arguments.ts';
import { CommandError, type Context, found, now } from './context.ts';
import { inviteCommand, resetCommand } from './links.ts';

export function accountCommands(program: Command, context: Context): void {
  const account = program.command('account').description('manage accounts, the owners of API keys').helpCommand(false);
  addAccountCommand(account, context);
  listAccountsCommand(account, context);
  removeAccountCommand(account, context);
  inviteCommand(account, context);
  resetCommand(account, context);
}

/** The name as the store has it: the release 1.0.0 stored names as they were typed, later ones store them in NFC. */
export async function storedName({ people }: Store, given: string): Promise<string> {
  return (await people.findPerson(given)) ? given : given.normalize('NFC');
}

function addAccountCommand(account: Command, { print, printEvent, withStore }: Context): void {
  account
    .command('add')
    .description('add an account')
    .argument('<name>', 'a name that no account has yet', name)
    .action((accountName: string) =>
      withStore(
        async ({ accounts }) => {
          const { id } = found(await accounts.addAccount(accountName), `Account ${accountName} exists already.`);
          printEvent({ event: 'account_created', account: id });
          print(`Account ${accountName} added.`);
        },
        { create: true },
      ),
    );
}

function listAccountsCommand(account: Command, { printJson, printTable, withStore }: Context): void {
  account
    .command('list')
    .description('list all accounts')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: boolean }) =>
      withStore(async ({ accounts }) => {
        const all = await accounts.listAccounts();
        if (json) return printJson(all);
        const rows = all.map(({ id, name: accountName, createdAt, hasPassword }) => ({
          id,
          name: accountName,
          created: createdAt.toISOString(),
          password: hasPassword ? 'yes' : 'no',
        }));
        return printTable(rows, 'There are no accounts.');
      }),
    );
}

function removeAccountCommand(account: Command, { print, printEvent, withStore }: Context): void {
  account
    .command('remove')
    .description('remove an account and all its keys')
    .argument('<name>')
    .option('--force', 'remove it even if it has active keys')
    .action((given: string, { force }: { force?: boolean }) =>
      withStore(async (store) => {
        const { accounts } = store;
        const accountName = await storedName(store, given);
        const active = (await accounts.listKeys(accountName)).filter((key) => !rejectionReason(key, now()));
        if (active.length > 0 && !force) {
          throw new CommandError(
            `Account ${accountName} has active keys (${active.map(({ id }) => id).join(', ')}): revoke them, or use --force.`,
          );
        }
        const { id } = found(await accounts.removeAccount(accountName), `There is no account ${accountName}.`);
        printEvent({ event: 'account_removed', account: id });
        print(`Account ${accountName} removed.`);
      }),
    );
}
