/** The two ways through a file that is imported: the one that checks, and the one that adds. */
import { setImmediate } from 'node:timers/promises';
import { type Batch, ConcurrentImportError, type Import, type NewRow } from '../repository/sqlite/import.ts';
import type { Format } from './arguments.ts';
import { type Row, readRows } from './import-rows.ts';
import { versionOf } from './import-source.ts';
import { animals } from './output.ts';
import { type Progress, withProgress } from './progress.ts';
import { CommandError } from './store.ts';

export interface Task {
  name: string;
  file: number;
  bytes: number;
  /** Of the file, when it was hashed. */
  version: string;
  format: Format;
  keepIds: boolean;
  store: Import;
  stopped: () => boolean;
}

export interface Faults {
  /** A sentence for each of the first. */
  named: string[];
  count: number;
  /** So many lines were looked at. */
  of: number;
}

const maxNamed = 20;

/** One transaction and one fsync for so many lines, or so many bytes of them. */
const batchLines = 1000;
const batchBytes = 4 * 1024 * 1024;

/** Reads all lines that were not imported yet. */
export function checkRows(task: Task): Promise<Faults> {
  return withProgress('Checking', 'lines', async (progress) => {
    const faults: Faults = { named: [], count: 0, of: 0 };
    for (const row of rowsOf(task)) {
      const text = row.faults || idFault(task, row.pet as NewRow);
      if (text !== '' && ++faults.count <= maxNamed) faults.named.push(`${placeOf(row)}: ${printable(text)}.`);
      if (++faults.of % batchLines === 0) await breathe(task, progress, row.end, faults.of);
    }
    return faults;
  });
}

/** Returns how many were left out. `whole`: none may be. */
export function addRows(task: Task, whole: boolean): Promise<number> {
  return withProgress('Importing', 'lines', async (progress) => {
    let batch: Batch = { rows: [], lines: task.store.mark().lines, ended: false, whole };
    let [begin, count, leftOut] = [0, 0, 0];
    for (const row of rowsOf(task)) {
      if (row.pet) batch.rows.push(row.pet);
      else leftOut += 1;
      batch.lines = row.last;
      if (++count % batchLines !== 0 && row.end - begin < batchBytes) continue;
      leftOut += add(task, batch);
      batch = { ...batch, rows: [] };
      begin = row.end;
      await breathe(task, progress, row.end, count);
    }
    return leftOut + add(task, { ...batch, ended: true });
  });
}

function* rowsOf({ file, format, keepIds, store }: Task): Generator<Row> {
  const { lines } = store.mark();
  for (const row of readRows(file, format, keepIds)) if (row.last > lines) yield row;
}

function idFault({ keepIds, store }: Task, { id, line }: NewRow): string {
  if (!keepIds) return '';
  if (store.hasId(id as bigint)) return `id ${id} exists already`;
  const first = store.claimId(id as bigint, line);
  return first === undefined ? '' : `id ${id} is on line ${first} already`;
}

function add(task: Task, batch: Batch): number {
  if (versionOf(task.file) !== task.version)
    throw new CommandError(`${task.name} has changed meanwhile: ${stateOf(task)}.`);
  const refused = addTo(task, batch);
  const [first] = refused;
  if (first && batch.whole)
    throw new CommandError(`Line ${first.line}: id ${first.id} exists by now: ${stateOf(task)}.`);
  return refused.length;
}

function addTo({ store }: Task, batch: Batch): NewRow[] {
  try {
    return store.add(batch);
  } catch (error) {
    if (error instanceof ConcurrentImportError)
      throw new CommandError('Another process imports the same at this moment.');
    throw error;
  }
}

/** Lets signals in, and ends where one asked for it. */
async function breathe(task: Task, progress: Progress, done: number, count: number): Promise<void> {
  progress.show(done, task.bytes, count);
  await setImmediate();
  if (task.stopped()) throw new CommandError(`Interrupted: ${stateOf(task)}. The same command goes on from there.`);
}

function stateOf({ store }: Task): string {
  const { animals: count, lines } = store.mark();
  return `${animals(count)} imported, up to line ${lines}`;
}

function placeOf({ line, last }: Row): string {
  return line === last ? `line ${line}` : `lines ${line} to ${last}`;
}

/** A message may quote the line, and so what a terminal would obey. */
function printable(text: string): string {
  return text.replace(/\p{C}/gu, '�');
}
