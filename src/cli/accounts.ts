/** The commands for the owners of API keys. */
import type { Command } from 'commander';
import { name } from './arguments.ts';
import { print, printJson, printTable, stateOf } from './output.ts';
import { CommandError, found, withStore } from './store.ts';

export function accountCommands(program: Command): void {
  const account = program.command('account').description('the owners of API keys').helpCommand(false);
  addCommand(account);
  listCommand(account);
  removeCommand(account);
}

function addCommand(account: Command): void {
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
}

function listCommand(account: Command): void {
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
}

function removeCommand(account: Command): void {
  account
    .command('remove')
    .description('remove an account and all its keys')
    .argument('<name>')
    .option('--force', 'also while it has active keys')
    .action((accountName: string, { force }: { force?: boolean }) =>
      withStore(async ({ accounts }) => {
        const active = (await accounts.listKeys(accountName)).filter((key) => stateOf(key) === 'active');
        if (active.length > 0 && !force) {
          throw new CommandError(
            `Account ${accountName} has active keys (${active.map(({ id }) => id).join(', ')}): revoke them, or use --force.`,
          );
        }
        found(await accounts.removeAccount(accountName), `There is no account ${accountName}.`);
        print(`Account ${accountName} removed.`);
      }),
    );
}
