/** The command that copies a store from SQLite to PostgreSQL. */
import type { Command } from 'commander';
import { sqliteFile } from '../store/open.ts';
import { type Context, now } from './context.ts';
import { animals, counted } from './output.ts';

const toSqlite = 'use export and import instead, which give the animals new ids';

export function copyCommand(program: Command, { print, resolve, withProgress }: Context): void {
  program
    .command('copy')
    .description(
      'copy a store from SQLite into an empty PostgreSQL database, all of it or nothing, and compare every row',
    )
    .requiredOption('--from <url>', 'the store to copy: sqlite: and the path of a file')
    .requiredOption('--to <url>', 'where to copy it: postgres://user:password@host:port/database')
    .action(async ({ from, to }: { from: string; to: string }, command: Command) => {
      // The messages leave out the URLs, which may have a password.
      if (!/^sqlite:./.test(from))
        command.error(
          `error: --from must be sqlite: and the path of a file. From PostgreSQL to PostgreSQL use pg_dump, to SQLite ${toSqlite}.`,
        );
      if (!/^postgres(ql)?:\/\//.test(to))
        command.error(`error: --to must be postgres://user:password@host:port/database. To SQLite ${toSqlite}.`);
      // Imported only here: the PostgreSQL driver takes long to load.
      const { copyStore } = await import('../store/copy.ts');
      const { pet, account, api_key, idempotency, message } = await withProgress('Copying', 'animals', ({ show }) =>
        copyStore(resolve(sqliteFile(from)), to, { now, onProgress: show }),
      );
      const others = [
        ...[counted('account', account), counted('key', api_key)],
        ...[counted('idempotency key', idempotency), counted('message', message)],
      ];
      print(`Copied and compared: ${[animals(pet), ...others].join(', ')}.`);
    });
}
