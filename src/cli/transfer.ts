/** The command that copies a store between SQLite and PostgreSQL, either way. */
import { type Command, InvalidArgumentError } from 'commander';
import { sqliteFile } from '../store/open.ts';
import { type Context, now } from './context.ts';
import { animals, counted } from './output.ts';

const example = 'sqlite: and the path of a file, or postgres://user:password@host:port/database';

export function copyCommand(program: Command, { print, resolve, withProgress }: Context): void {
  const absolute = (url: string) => (url.startsWith('sqlite:') ? `sqlite:${resolve(sqliteFile(url))}` : url);
  program
    .command('copy')
    .description(
      'copy a store to another file or database and compare every row; repeat it to continue an interrupted copy or to add new rows',
    )
    .requiredOption('--from <url>', 'the store to copy: sqlite: and the path of a file, or postgres://…', storeUrl)
    .requiredOption('--to <url>', 'where to copy it: missing, empty, or an earlier copy', storeUrl)
    .action(async ({ from, to }: { from: string; to: string }) => {
      // Imported only here: the PostgreSQL driver takes long to load.
      const { copyStore } = await import('../store/transfer/transfer.ts');
      const counts = await copyStore(absolute(from), absolute(to), {
        now,
        watch: (what, work) => withProgress(what, 'animals', ({ show }) => work(show)),
      });
      const { pet, account, api_key, idempotency, message, import: imports } = counts;
      const others = [
        ...[counted('account', account), counted('key', api_key), counted('idempotency key', idempotency)],
        ...[counted('message', message), counted('import record', imports)],
      ];
      print(`Copied and compared: ${[animals(pet), ...others].join(', ')}.`);
    });
}

function storeUrl(text: string): string {
  if (!/^(sqlite:.|postgres(ql)?:\/\/)/.test(text)) throw new InvalidArgumentError(`Give ${example}.`);
  return text;
}
