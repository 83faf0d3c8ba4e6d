/** The command that adds animals from a file: it checks every line first, then adds the animals in batches. */
import { closeSync, fstatSync, statSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import type { Command } from 'commander';
import { ApiError, messageOf } from '../core/errors.ts';
import { type Batch, ConcurrentImportError, type Import, LostBatchError, type NewRow } from '../store/bulk.ts';
import { sqliteFile } from '../store/open.ts';
import { openImport } from '../store/sqlite/import.ts';
import { type Format, formatOf, formatOption } from './arguments.ts';
import { CommandError, type Context, now } from './context.ts';
import { type Row, readRows } from './import-rows.ts';
import { hashOf, openSource, versionOf } from './import-source.ts';
import { animals, counted, type Progress } from './output.ts';
import { watchSignals } from './signals.ts';

interface ImportOptions {
  format?: Format;
  skipBad?: boolean;
  keepIds?: boolean;
  again?: boolean;
}

interface Task {
  name: string;
  file: number;
  bytes: number;
  /** The file's version when it was hashed. */
  version: string;
  format: Format;
  keepIds: boolean;
  store: Import;
  isInterrupted: () => boolean;
  /** Prints a line on stderr that is not an error. */
  note: (text: string) => void;
}

/** Lines are those of the file: a record of CSV may span several. */
interface Faults {
  /** A sentence for each of the first bad records. */
  sentences: string[];
  /** Lines that the sentences name. */
  namedLines: number;
  badLines: number;
  /** Lines of the file up to the last record. */
  lines: number;
}

const maxSentences = 20;

/** How long the store may take for a batch before a note says so. */
const reportWaitAfterMs = 5000;

const repeat = 'Repeat the command to continue from there.';

/** Each batch is one transaction and one fsync. It ends at this many lines or bytes, whichever comes first. */
const batchLines = 1000;
const batchBytes = 4 * 1024 * 1024;

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

async function openTarget({ databaseUrl, onWait }: Context, hash: Buffer, again: boolean): Promise<Import> {
  const url = databaseUrl();
  const options = { now, onWait };
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

function reportOf({ sentences, namedLines, badLines }: Faults): string[] {
  const others = badLines - namedLines;
  return others > 0 ? [...sentences, `And ${counted('more line', others)}.`] : sentences;
}

/** Checks all lines that were not imported yet. Throws CommandError if it is unknown where a record ends. */
function checkRows({ withProgress }: Context, task: Task, skipBad: boolean): Promise<Faults> {
  return withProgress('Checking', 'lines', async (progress) => {
    const faults: Faults = { sentences: [], namedLines: 0, badLines: 0, lines: 0 };
    const start = task.store.mark().lines;
    for (const { rows, ended } of batchesOf(task)) {
      const taken = await idFaults(task, rows);
      for (const row of rows) {
        if (row.openQuote !== undefined)
          throw openQuoteError(task, row, row.openQuote, skipBad ? [] : reportOf(faults));
        const text = row.faults || taken.get(row.line);
        if (text) addFault(faults, row, text);
        faults.lines = row.last;
      }
      if (!ended) await pause(task, progress, rows, start);
    }
    return faults;
  });
}

function addFault(faults: Faults, row: Row, text: string): void {
  faults.badLines += linesOf(row);
  if (faults.sentences.length === maxSentences) return;
  faults.sentences.push(`${placeOf(row)}: ${printable(text)}.`);
  faults.namedLines += linesOf(row);
}

/** Skipping the record would drop all lines up to the next quote, which may be good. */
function openQuoteError(task: Task, row: Row, quote: number, before: string[]): CommandError {
  const reason = `the quote that opens here is not closed correctly (${placeOf(row)}: ${printable(row.faults)})`;
  const sentence = `line ${quote}: ${reason}, so ${nothingOf(task)}: fix it, because --skip-bad cannot tell where the field should end.`;
  return new CommandError([...before, sentence].join('\n'));
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

/** The rows that were not imported yet, in batches. The last one may be empty. */
function* batchesOf({ file, format, keepIds, store }: Task): Generator<{ rows: Row[]; ended: boolean }> {
  const { lines } = store.mark();
  let rows: Row[] = [];
  let begin = 0;
  for (const row of readRows(file, format, keepIds)) {
    if (row.last <= lines) continue;
    rows.push(row);
    if (rows.length < batchLines && row.end - begin < batchBytes) continue;
    yield { rows, ended: false };
    rows = [];
    begin = row.end;
  }
  yield { rows, ended: true };
}

const petsOf = (rows: Row[]) => rows.flatMap(({ pet }) => pet ?? []);

/** Line → why the row's id cannot be used. */
async function idFaults({ keepIds, store, note }: Task, rows: Row[]): Promise<Map<number, string>> {
  if (!keepIds) return new Map();
  const pets = petsOf(rows);
  const ids = new Map(pets.map(({ line, id }) => [line, id]));
  const taken = await reportWait(note, store.claimIds(pets));
  return new Map(
    taken.map(({ line, usedOn }) => {
      const reason = usedOn === undefined ? 'exists already' : `is on line ${usedOn} already`;
      return [line, `id ${ids.get(line)} ${reason}`];
    }),
  );
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

async function reportWait<Result>(note: Task['note'], work: Promise<Result>): Promise<Result> {
  const sentence = `The store has not answered for ${reportWaitAfterMs / 1000} s: still waiting for it.`;
  const timer = setTimeout(note, reportWaitAfterMs, sentence);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

function unwritable(reason: unknown, progress: string): CommandError {
  return new CommandError(`The store cannot be written (${messageOf(reason)}): ${progress}. ${repeat}`);
}

/** Shows the progress, lets signals in, and ends the import if one came. */
async function pause(task: Task, progress: Progress, rows: Row[], start: number): Promise<void> {
  const { end, last } = rows.at(-1) as Row;
  progress.show(end, task.bytes, last - start);
  await setImmediate();
  if (task.isInterrupted()) throw new CommandError(`Interrupted: ${progressOf(task)}. ${repeat}`);
}

function progressOf({ store }: Task): string {
  const { animals: count, lines } = store.mark();
  return `${animals(count)} imported, up to line ${lines}`;
}

/** An import that continues has added animals before. */
function nothingOf({ store }: Task): string {
  return store.mark().lines > 0 ? 'nothing more was imported' : 'nothing was imported';
}

function linesOf({ line, last }: Pick<Row, 'line' | 'last'>): number {
  return last - line + 1;
}

function placeOf({ line, last }: Row): string {
  return line === last ? `line ${line}` : `lines ${line} to ${last}`;
}

/** A message may quote the line, which may contain control characters that a terminal would obey. */
function printable(text: string): string {
  return text.replace(/\p{C}/gu, '�');
}
