/** The command that copies a store from SQLite to PostgreSQL. */
import { type Command, InvalidArgumentError } from 'commander';
import { sqliteFile } from '../repository/open.ts';
import { animals, print } from './output.ts';
import { withProgress } from './progress.ts';
import { now } from './store.ts';

function urlOf(scheme: RegExp, example: string): (text: string) => string {
  return (text) => {
    if (!scheme.test(text)) throw new InvalidArgumentError(`Give ${example}.`);
    return text;
  };
}

export function copyCommand(program: Command): void {
  program
    .command('copy')
    .description(
      'copy a store to PostgreSQL and compare every row; the same command goes on where an earlier one ended, also with what is new',
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
      // Only here: PostgreSQL's client takes its time to load.
      const { copyToPostgres } = await import('../repository/transfer/transfer.ts');
      const counts = await copyToPostgres(sqliteFile(from), to, {
        now,
        watch: (what, work) => withProgress(what, 'animals', ({ show }) => work(show)),
      });
      const { pet, account, api_key, idempotency, message } = counts;
      print(
        `Copied and compared: ${animals(pet)}, ${account} accounts, ${api_key} keys, ${idempotency} idempotency keys, ${message} messages.`,
      );
    });
}
