/** The commands that look after the store as a whole, and the one that checks the server. */
import { get, type IncomingMessage } from 'node:http';
import { json as readJson } from 'node:stream/consumers';
import type { Command } from 'commander';
import { isObject } from '../core/schema.ts';
import { localUrl } from '../server/listen.ts';
import { sqliteFile } from '../store/open.ts';
import { backupStore } from '../store/sqlite/backup.ts';
import { checkStore } from '../store/sqlite/check.ts';
import { checksumFile } from '../store/sqlite/checksum.ts';
import { restoreStore } from '../store/sqlite/restore.ts';
import { openExisting } from '../store/sqlite/store-file.ts';
import { CommandError, type Context, now } from './context.ts';
import { animals } from './output.ts';
import { targetOf } from './output-file.ts';

const healthTimeoutMs = 3000;

export function maintenanceCommands(program: Command, context: Context): void {
  migrateCommand(program, context);
  checkCommand(program, context);
  backupCommand(program, context);
  restoreCommand(program, context);
}

function migrateCommand(program: Command, { env, print, settings, withStore }: Context): void {
  program
    .command('migrate')
    .description('update the schema of the store to this release')
    .action(async () => {
      settings();
      // Until 2.0.0 it also granted. The servers' role would silently lack its rights.
      if (env.DATABASE_SERVER_ROLE)
        throw new CommandError(
          'DATABASE_SERVER_ROLE is no longer a setting: remove it, and give the role its rights with psql and deploy/postgres/grants.sql (docs/operations.md).',
        );
      const applied = await withStore(async ({ migrated }) => migrated, { create: true });
      print(applied.length === 0 ? 'The store is up to date.' : `Applied ${applied.join(', ')}.`);
    });
}

function checkCommand(program: Command, context: Context): void {
  program
    .command('check')
    .description('check the store, or a backup of it; exits 1 if it has a problem')
    .argument('[file]', 'a backup to check instead of the store that DATABASE_URL names; also against <file>.sha256')
    .option('--json', 'print JSON')
    .action((name: string | undefined, { json = false }: { json?: boolean }) => {
      const url = name === undefined ? context.databaseUrl() : `sqlite:${context.resolve(name)}`;
      return url.startsWith('sqlite:')
        ? checkFile(context, sqliteFile(url), name !== undefined, json)
        : checkDatabase(context, url, json);
    });
}

async function checkFile(context: Context, path: string, isBackup: boolean, json: boolean): Promise<void> {
  const report = await checkStore(path, isBackup);
  const { bytes, sqliteVersion, schemaVersion, latestSchemaVersion, checksum, rows } = report;
  const file = context.asGiven(report.file);
  printReport(context, { ...report, file }, `${file} is sound.`, json, {
    file,
    size: `${bytes} bytes`,
    ...(checksum && { checksum: checksum === 'missing' ? `none (no ${checksumFile(file)})` : checksum }),
    'schema version': versionOf(schemaVersion, latestSchemaVersion),
    'SQLite version': sqliteVersion,
    ...rowsOf(rows),
  });
}

async function checkDatabase(context: Context, url: string, json: boolean): Promise<void> {
  // Imported only here: the PostgreSQL driver takes long to load.
  const postgres = await import('../store/postgres/check.ts');
  const strict = context.settings().DEPLOYMENT === 'production' || undefined;
  const report = await postgres.checkDatabase(url, { now, strict, logger: context.logger });
  const { database, schemaVersion, latestSchemaVersion } = report;
  printReport(context, report, `${database} can be read.`, json, {
    database,
    'schema version': versionOf(schemaVersion, latestSchemaVersion),
    'PostgreSQL version': report.postgresVersion,
    encoding: report.encoding,
    'data checksums': report.dataChecksums,
    fsync: report.fsync,
    'full page writes': report.fullPageWrites,
    'synchronous commit': report.synchronousCommit,
    ...rowsOf(report.rows),
  });
}

/** A schema that a later release has only extended is newer, and still used. */
const versionOf = (version: number | null, latest: number) =>
  version !== null && version > latest ? `${version}, newer than ${latest} of this release` : `${version} of ${latest}`;

const rowsOf = (rows: Record<string, number>) =>
  Object.fromEntries(Object.entries(rows).map(([table, count]) => [`rows of ${table}`, count]));

/** Prints what was found, and `verdict` if there are no problems; otherwise throws CommandError. */
function printReport<Report extends { schemaVersion: number | null; problems: string[] }>(
  { asGiven, print, printJson, printTable }: Context,
  report: Report,
  verdict: string,
  json: boolean,
  facts: Record<string, string | number | null>,
): void {
  const problems = report.problems.map(asGiven);
  if (json) printJson({ ok: problems.length === 0, ...report, problems });
  else if (report.schemaVersion !== null)
    printTable(
      Object.entries(facts).map(([what, found]) => ({ what, found })),
      '',
    );
  if (problems.length > 0) throw new CommandError(problems.join('\n'));
  if (!json) print(verdict);
}

function backupCommand(program: Command, context: Context): void {
  const { print, storeFile, withProgress } = context;
  program
    .command('backup')
    .description('copy the store to a file, check the copy, and write its checksum; safe while the server runs')
    .argument('<file>', 'the file to write; its checksum goes to <file>.sha256')
    .option('--force', 'replace both files if they exist')
    .action(async (file: string, { force }: { force?: boolean }) => {
      const source = openExisting(storeFile());
      try {
        const target = targetOf(context, file, force);
        targetOf(context, checksumFile(file), force);
        const count = await withProgress('Copying', 'pages', ({ show }) => backupStore(source, target, show));
        print(`Backed up ${animals(count)} to ${file}.`);
      } finally {
        source.close();
      }
    });
}

function restoreCommand(program: Command, context: Context): void {
  const { asGiven, note, print, resolve, storeFile, withProgress } = context;
  program
    .command('restore')
    .description('replace the store with a backup and keep the old store next to it; stop the server first')
    .argument('<file>', 'a backup; it must match <file>.sha256, if that exists')
    .action(async (file: string) => {
      const {
        animals: count,
        migrated,
        kept,
      } = await withProgress('Copying', 'pages', ({ show }) =>
        restoreStore(resolve(file), storeFile(), { onProgress: show, now }),
      );
      for (const name of migrated) note(`Applied ${name}.`);
      print(`Restored ${animals(count)} from ${file}.`);
      if (kept !== undefined) print(`The previous store is kept as ${asGiven(kept)}.`);
    });
}

export function healthCommand(program: Command, { print, settings }: Context): void {
  program
    .command('health')
    .description('ask the server at OPS_HOST and OPS_PORT whether it is ready')
    .action(async () => {
      const { OPS_HOST, OPS_PORT } = settings();
      if (OPS_PORT === 'off') throw new CommandError('OPS_PORT is off: there is no ops port to ask.');
      const url = `${localUrl(OPS_HOST, OPS_PORT)}/readyz`;
      const response = await responseTo(url).catch((error: NodeJS.ErrnoException) => {
        // The cause says that the time is over; if both addresses of localhost fail, there is only a code.
        const reason = (error.cause instanceof Error && error.cause.message) || error.message || error.code;
        throw new CommandError(`${url} does not answer: ${reason}.`);
      });
      const body = await readJson(response).catch(() => undefined);
      const state = isObject(body) ? body : {};
      if (state.code === 'service_unavailable') throw new CommandError('The server is not ready.');
      if (state.status !== 'ready')
        throw new CommandError(`${url} answers ${response.statusCode}, but it is not an animal store.`);
      print('ready');
    });
}

/** Not fetch, which refuses some ports, such as 6000 and 10080. */
function responseTo(url: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get(url, { signal: AbortSignal.timeout(healthTimeoutMs) }, resolve).on('error', reject);
  });
}
