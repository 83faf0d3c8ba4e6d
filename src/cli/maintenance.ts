/** The commands that look after the store as a whole. */
import type { Command } from 'commander';
import { copyStore } from '../repository/sqlite/backup.ts';
import { checkStore, type Report } from '../repository/sqlite/check.ts';
import { openExisting } from '../repository/sqlite/connection.ts';
import { restoreStore } from '../repository/sqlite/restore.ts';
import { animals, print, printJson, printTable } from './output.ts';
import { replaceFile } from './output-file.ts';
import { withProgress } from './progress.ts';
import { CommandError, now, storeFile, withStore } from './store.ts';

export function maintenanceCommands(program: Command): void {
  migrateCommand(program);
  checkCommand(program);
  backupCommand(program);
  restoreCommand(program);
}

function migrateCommand(program: Command): void {
  program
    .command('migrate')
    .description('bring the store to the schema of this release')
    .action(async () => {
      const applied: string[] = [];
      await withStore(
        async () => undefined,
        (file) => applied.push(file),
      );
      print(applied.length === 0 ? 'The store is up to date.' : `Applied ${applied.join(', ')}.`);
    });
}

function checkCommand(program: Command): void {
  program
    .command('check')
    .description('look the store, or a backup of it, through for damage; exit 1 where there is any')
    .argument('[file]', 'instead of the store that DATABASE_URL names')
    .option('--json', 'as JSON')
    .action((file: string = storeFile(), { json }: { json?: boolean }) => {
      const report = checkStore(file);
      if (json) printJson({ ok: report.problems.length === 0, ...report });
      else if (report.schemaVersion !== null) printTable(reportRows(report), '');
      if (report.problems.length > 0) throw new CommandError(report.problems.join('\n'));
      if (!json) print(`${file} is sound.`);
    });
}

function reportRows({ file, bytes, sqliteVersion, schemaVersion, latestSchemaVersion, rows }: Report) {
  const facts = {
    file,
    size: `${bytes} bytes`,
    'schema version': `${schemaVersion} of ${latestSchemaVersion}`,
    'SQLite version': sqliteVersion as string,
    ...Object.fromEntries(Object.entries(rows).map(([table, count]) => [`rows of ${table}`, count])),
  };
  return Object.entries(facts).map(([what, found]) => ({ what, found }));
}

function backupCommand(program: Command): void {
  program
    .command('backup')
    .description('copy the store to a file, while the server runs, and check the copy')
    .argument('<file>')
    .option('--force', 'replace the file where it exists')
    .action(async (file: string, { force }: { force?: boolean }) => {
      const source = openExisting(storeFile());
      try {
        const { pet } = await withProgress('Copying', 'pages', ({ show }) =>
          replaceFile(file, force, (partial) => copyStore(source, partial, show)),
        );
        print(`Backed up ${animals(pet)} to ${file}.`);
      } finally {
        source.close();
      }
    });
}

function restoreCommand(program: Command): void {
  program
    .command('restore')
    .description('put a backup in the place of the store, which is kept beside it; the server must be stopped')
    .argument('<file>')
    .option('--force', 'also where the present store is too damaged to tell whether a server has it open')
    .action(async (file: string, { force = false }: { force?: boolean }) => {
      const onMigration = (name: string) => void process.stderr.write(`Applied ${name}.\n`);
      const { rows, kept } = await withProgress('Copying', 'pages', ({ show }) =>
        restoreStore(file, storeFile(), { force, onProgress: show, now, onMigration }),
      );
      print(`Restored ${animals(rows.pet)} from ${file}.`);
      if (kept !== undefined) print(`The store that was there before is kept as ${kept}.`);
    });
}
