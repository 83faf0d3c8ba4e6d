/** The commands that look after the store as a whole, and the one that checks the server. */
import { existsSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { newSecret } from '../core/accounts.ts';
import { codeOf } from '../core/errors.ts';
import { get } from '../http/node-http.ts';
import { localUrl } from '../server/listen.ts';
import { isOther, isSame, realFile, sidecarFiles } from '../store/files.ts';
import { sqliteFile } from '../store/open.ts';
import { backupStore } from '../store/sqlite/backup.ts';
import { checkStore } from '../store/sqlite/check.ts';
import { restoreStore } from '../store/sqlite/restore.ts';
import { openExisting } from '../store/sqlite/store-file.ts';
import { type Cli, type Commands, counted, inColumns, inWords, jsonOption, now, refuse } from './command.ts';

const healthTimeoutMs = 3000;

/** The file to write for a command: where `file` leads, if it is a symbolic link. Throws CommandError if the command must not write it. */
export function targetOf({ settings }: Cli, file: string, force: true | undefined): string {
  // Made of a PostgreSQL URL, this is a path where nothing is.
  const store = sqliteFile(settings().DATABASE_URL);
  const target = realFile(file);
  if (['', ...sidecarFiles].some((suffix) => isSame(target, store + suffix))) refuse(`${file} is the store itself.`);
  const suffix = sidecarFiles.find((each) => target.endsWith(each));
  if (suffix)
    refuse(
      `${file} ends in ${suffix}, as a file that SQLite keeps beside another one and deletes: choose another name.`,
    );
  if (isOther(target)) refuse(`${file} is not a file.`);
  if (existsSync(target) && !force) refuse(`${file} exists already: use --force to replace it.`);
  return target;
}

export const maintenanceCommands: Commands = {
  migrate: {
    about: 'update the schema of the store to this release',
    inputs: {},
    async run(cli) {
      const applied = await cli.withStore(async ({ migrated }) => migrated, true);
      cli.print(applied.length === 0 ? 'The store is up to date.' : `Applied ${applied.join(', ')}.`);
    },
  },

  check: {
    about: 'check the store or a backup; exits 1 if it has a problem',
    inputs: {
      '[<file>]': 'a backup (default: the store)',
      ...jsonOption,
    },
    async run(cli, { file, json }) {
      const url = file === undefined ? cli.settings().DATABASE_URL : `sqlite:${file}`;
      // Imported only here: the PostgreSQL driver takes long to load.
      const report = url.startsWith('sqlite:')
        ? checkStore(sqliteFile(url))
        : await (await import('../store/postgres/check.ts')).checkDatabase(url, {
            now,
            strict: cli.settings().DEPLOYMENT === 'production',
          });
      const { problems, rows, ...facts } = report;
      if (json) cli.printJson({ ok: problems.length === 0, ...report });
      else if (report.schemaVersion !== null) {
        const table = Object.entries({ ...facts, ...rows }).filter(([, value]) => value !== null);
        const labelOf = (what: string) => (what in rows ? `rows of ${what}` : inWords(what));
        cli.print(inColumns(table.map(([what, value]) => [labelOf(what), String(value)])));
      }
      if (problems.length > 0) refuse(problems.join('\n'));
      if (!json) cli.print('No problems were found.');
    },
  },

  backup: {
    about: 'copy the store to a file and check it; the server may run',
    inputs: {
      '<file>': 'the file to write',
      '[--force]': 'replace the file if it exists',
    },
    async run(cli, { file, force }) {
      const source = openExisting(cli.storeFile());
      try {
        const count = await backupStore(source, targetOf(cli, file, force), cli.note);
        cli.print(`Backed up ${counted('animal', count)} to ${file}.`);
      } finally {
        source.close();
      }
    },
  },

  restore: {
    about: 'replace the store with a backup; stop the server first',
    inputs: { '<file>': 'a backup' },
    async run(cli, { file }) {
      const { animals, migrated, kept } = await restoreStore(file, cli.storeFile(), now, cli.note);
      for (const name of migrated) cli.note(`Applied ${name}.`);
      cli.print(`Restored ${counted('animal', animals)} from ${file}.`);
      if (kept !== undefined) cli.print(`The previous store is kept as ${kept}.`);
    },
  },

  copy: {
    about: 'copy an SQLite store into an empty PostgreSQL database',
    inputs: {
      '--from <sqlite-url>': 'the store to copy',
      '--to <postgres-url>': 'an empty database',
    },
    async run(cli, { from, to }) {
      // Imported only here: the PostgreSQL driver takes long to load.
      const { copyIntoPostgres } = await import('../store/copy.ts');
      const rows = Object.entries(await copyIntoPostgres(from, to, { now }));
      cli.print(
        `Copied and compared: ${rows.map(([table, count]) => `${counted('row', count)} of ${table}`).join(', ')}.`,
      );
    },
  },

  health: {
    about: 'ask the server, at OPS_PORT or PORT, if it is ready',
    inputs: {},
    async run(cli) {
      const { HOST, PORT, OPS_HOST, OPS_PORT, DEPLOYMENT } = cli.settings();
      const asksApi = OPS_PORT === 'off';
      if (String(asksApi ? PORT : OPS_PORT) === '0')
        refuse(`${asksApi ? '' : 'OPS_'}PORT is 0: there is no known port to ask.`);
      const url = asksApi ? `${localUrl(HOST, PORT)}/v1/pets` : `${localUrl(OPS_HOST, OPS_PORT)}/readyz`;
      // A key that does not exist makes the server ask its store.
      const headers = asksApi ? { authorization: `Bearer ${newSecret(DEPLOYMENT === 'production').key}` } : {};
      // Not fetch, which refuses some ports, such as 6000 and 10080.
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        // Not Node's own agent, which may ask a proxy (NODE_USE_ENV_PROXY) about this machine.
        const agent = false;
        get(url, { agent, headers, signal: AbortSignal.timeout(healthTimeoutMs) }, resolve).on('error', reject);
      }).catch((error: Error) => {
        // After the time-out, the cause has the reason; if both addresses of localhost fail, there is only a code.
        const reason = (error.cause instanceof Error && error.cause.message) || error.message || codeOf(error);
        refuse(`${url} does not answer: ${reason}.`);
      });
      const body = await text(response).catch(() => '');
      const { message } = /^\{"code":"service_unavailable",.*\}$/.test(body) ? JSON.parse(body) : {};
      if (message) refuse(message);
      const answers = asksApi ? /^{"code":"(invalid_api_key|rate_limited)",/ : /^{"status":"ready"/;
      if (!answers.test(body)) refuse(`${url} answers ${response.statusCode}, but it is not an animal store.`);
      cli.print('ready');
    },
  },
};
