/** The command that adds animals from a file: it checks every line first, then adds the animals in batches. */
import { closeSync, fstatSync, statSync } from 'node:fs';
import type { Command } from 'commander';
import { ApiError, messageOf } from '../core/errors.ts';
import { sameInterruptMs } from '../server/start.ts';
import { type Batch, ConcurrentImportError, type Import, LostBatchError, type NewRow } from '../store/bulk.ts';
import { sqliteFile } from '../store/open.ts';
import { openImport } from '../store/sqlite/import.ts';
import { type Format, formatOf, formatOption } from './arguments.ts';
import { CommandError, type Context, now } from './context.ts';
import { checkRows, reportOf } from './import-check.ts';
import { hashOf, openSource, versionOf } from './import-source.ts';
import {
  batchesOf,
  linesOf,
  nothingOf,
  pause,
  petsOf,
  progressOf,
  repeat,
  reportWait,
  type Task,
} from './import-task.ts';
import { animals, counted } from './output.ts';

interface ImportOptions {
  format?: Format;
  skipBad?: boolean;
  keepIds?: boolean;
  again?: boolean;
}

export function importCommand(program: Command, context: Context): void {
  program
    .command('import')
    .description('check every line of a file, then add its animals; repeat an interrupted import to continue it')
    .argument('<file>', 'JSON lines or CSV, as export writes them; - is standard input')
    .addOption(formatOption())
    .option('--skip-bad', 'skip invalid lines; a quote that is not closed still stops the import')
    .option('--keep-ids', 'keep the ids of the file; the store must not have any of them')
    .option('--again', 'import again even if already imported')
    .action(async (name: string, { format: given, skipBad = false, keepIds = false, again = false }: ImportOptions) => {
      const source = name === '-' ? context.stdin() : context.resolve(name);
      if (typeof source === 'string' && statSync(source).isDirectory()) throw new CommandError(`${name} is a folder.`);
      const file = await openSource(source);
      try {
        const version = versionOf(file);
        const { size: bytes } = fstatSync(file);
        const format = formatOf(name, given);
        const { note } = context;
        const store = await reportWait(note, openTarget(context, hashOf(file, `${format} ${keepIds}`), again));
        const signals = watchSignals(() => note('Stopping after this batch; press Ctrl-C again to end at once.'));
        try {
          const { isInterrupted } = signals;
          const task = { name, file, bytes, version, format, keepIds, store, isInterrupted, note };
          await importFile(context, task, skipBad);
        } finally {
          signals.ignore();
          store.close();
        }
      } finally {
        closeSync(file);
      }
    });
}

async function openTarget({ databaseUrl, logger }: Context, hash: Buffer, again: boolean): Promise<Import> {
  const url = databaseUrl();
  const options = { now, logger };
  if (url.startsWith('sqlite:')) return openImport(sqliteFile(url), hash, again, options);
  // Imported only here: the PostgreSQL driver takes long to load.
  const postgres = await import('../store/postgres/import.ts');
  return postgres.openImport(url, hash, again, options);
}

async function importFile(context: Context, task: Task, skipBad: boolean): Promise<void> {
  const { name, store } = task;
  const { endedAt, animals: count, lines } = store.mark();
  if (endedAt !== null) {
    const when = new Date(endedAt).toISOString();
    context.print(`${name} was imported already, on ${when}: ${animals(count)}. Use --again to import it once more.`);
    return;
  }
  if (lines > 0) context.note(`Continuing after line ${lines}.`);
  const faults = await checkRows(context, task, skipBad);
  const { badLines } = faults;
  if (badLines > 0 && !skipBad) {
    const [are, them] = badLines === 1 ? ['is', 'it'] : ['are', 'them'];
    const share = `${badLines} of ${counted('line', faults.lines)} ${are} bad`;
    const summary = `${share}, so ${nothingOf(task)}: fix ${them}, or use --skip-bad.`;
    throw new CommandError([...reportOf(faults), summary].join('\n'));
  }
  const skipped = await addRows(context, task, !skipBad);
  if (badLines > 0) context.printError(reportOf(faults).join('\n'));
  context.print(`Imported ${animals(store.mark().animals)}${skipBad ? `, skipped ${counted('line', skipped)}` : ''}.`);
}

/** Adds the animals and returns how many lines were skipped. `whole`: none may be skipped. */
function addRows({ withProgress }: Context, task: Task, whole: boolean): Promise<number> {
  return withProgress('Importing', 'lines', async (progress) => {
    const start = task.store.mark().lines;
    let skipped = 0;
    for (const { rows, ended } of batchesOf(task)) {
      for (const row of rows) if (!row.pet) skipped += linesOf(row);
      const lines = rows.at(-1)?.last ?? task.store.mark().lines;
      skipped += await addBatch(task, { rows: petsOf(rows), lines, ended, whole });
      if (!ended) await pause(task, progress, rows, start);
    }
    return skipped;
  });
}

/** Returns how many lines were skipped because their id was taken after the check. */
async function addBatch(task: Task, batch: Batch): Promise<number> {
  if (versionOf(task.file) !== task.version)
    throw new CommandError(`${task.name} changed during the import: ${progressOf(task)}.`);
  const refused = await addToStore(task, batch);
  const [first] = refused;
  if (first && batch.whole)
    throw new CommandError(`Line ${first.line}: id ${first.id} was taken during the import: ${progressOf(task)}.`);
  return refused.reduce((lines, row) => lines + linesOf(row), 0);
}

async function addToStore(task: Task, batch: Batch): Promise<NewRow[]> {
  try {
    return await reportWait(task.note, task.store.add(batch));
  } catch (error) {
    if (error instanceof ConcurrentImportError) throw new CommandError('Another process is importing the same file.');
    if (error instanceof LostBatchError) throw unwritable(error, `at least ${progressOf(task)}`);
    if (error instanceof ApiError) throw unwritable(error.cause, progressOf(task));
    throw error;
  }
}

function unwritable(reason: unknown, progress: string): CommandError {
  return new CommandError(`The store cannot be written (${messageOf(reason)}): ${progress}. ${repeat}`);
}

/** Signals that end an import after its batch. */
const signals = ['SIGINT', 'SIGTERM'] as const;

/** Calls `onFirst` at the first SIGINT or SIGTERM; a second one ends the process. `ignore` restores what signals did before. */
function watchSignals(onFirst: () => void): { isInterrupted: () => boolean; ignore: () => void } {
  let interruptedAt: number | undefined;

  function interrupt(signal: NodeJS.Signals): void {
    const now = performance.now();
    if (interruptedAt === undefined) {
      interruptedAt = now;
      onFirst();
    } else if (now - interruptedAt >= sameInterruptMs) {
      ignore();
      process.kill(process.pid, signal);
    }
  }

  function ignore(): void {
    for (const signal of signals) process.off(signal, interrupt);
  }

  for (const signal of signals) process.on(signal, interrupt);
  return { isInterrupted: () => interruptedAt !== undefined, ignore };
}
