/** The command that copies a store from SQLite to PostgreSQL. */
import { type Command, InvalidArgumentError } from 'commander';
import { sqliteFile } from '../repository/open.ts';
import { type Context, now } from './context.ts';
import { animals } from './output.ts';

export function copyCommand(program: Command, { print, resolve, withProgress }: Context): void {
  program
    .command('copy')
    .description(
      'copy a store to PostgreSQL and compare every row; repeat it to continue an interrupted copy or to add new rows',
    )
    .requiredOption(
      '--from <url>',
      'sqlite: and the path of a file',
      urlOf(/^sqlite:./, 'sqlite: and the path of a file'),
    )
    .requiredOption(
      '--to <url>',
      'postgres://…',
      urlOf(/^postgres(ql)?:\/\//, 'postgres://user:password@host:port/database'),
    )
    .action(async ({ from, to }: { from: string; to: string }) => {
      // Imported only here: the PostgreSQL driver takes long to load.
      const { copyToPostgres } = await import('../repository/transfer/transfer.ts');
      const counts = await copyToPostgres(resolve(sqliteFile(from)), to, {
        now,
        watch: (what, work) => withProgress(what, 'animals', ({ show }) => work(show)),
      });
      const { pet, account, api_key, idempotency, message } = counts;
      print(
        `Copied and compared: ${animals(pet)}, ${account} accounts, ${api_key} keys, ${idempotency} idempotency keys, ${message} messages.`,
      );
    });
}

function urlOf(scheme: RegExp, example: string): (text: string) => string {
  return (text) => {
    if (!scheme.test(text)) throw new InvalidArgumentError(`Give ${example}.`);
    return text;
  };
}
