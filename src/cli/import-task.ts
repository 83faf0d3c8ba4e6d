/** An import that runs: the batches in which it goes through its file, and what it tells of its progress. */
import { setImmediate } from 'node:timers/promises';
import type { Import } from '../store/bulk.ts';
import type { Format } from './arguments.ts';
import { CommandError } from './context.ts';
import { type Row, readRows } from './import-rows.ts';
import { animals, type Progress } from './output.ts';

/** One run of the command. */
export interface Task {
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

/** How long the store may take for a batch before a note says so. */
const reportWaitAfterMs = 5000;

export const repeat = 'Repeat the command to continue from there.';

/** Each batch is one transaction and one fsync. It ends at this many lines or bytes, whichever comes first. */
const batchLines = 1000;
const batchBytes = 4 * 1024 * 1024;

/** The rows that were not imported yet, in batches. The last one may be empty. */
export function* batchesOf({ file, format, keepIds, store }: Task): Generator<{ rows: Row[]; ended: boolean }> {
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

export const petsOf = (rows: Row[]) => rows.flatMap(({ pet }) => pet ?? []);

export async function reportWait<Result>(note: Task['note'], work: Promise<Result>): Promise<Result> {
  const sentence = `The store has not answered for ${reportWaitAfterMs / 1000} s: still waiting for it.`;
  const timer = setTimeout(note, reportWaitAfterMs, sentence);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

/** Shows the progress, lets signals in, and ends the import if one came. */
export async function pause(task: Task, progress: Progress, rows: Row[], start: number): Promise<void> {
  const { end, last } = rows.at(-1) as Row;
  progress.show(end, task.bytes, last - start);
  await setImmediate();
  if (task.isInterrupted()) throw new CommandError(`Interrupted: ${progressOf(task)}. ${repeat}`);
}

export function progressOf({ store }: Task): string {
  const { animals: count, lines } = store.mark();
  return `${animals(count)} imported, up to line ${lines}`;
}

/** An import that continues has added animals before. */
export function nothingOf({ store }: Task): string {
  return store.mark().lines > 0 ? 'nothing more was imported' : 'nothing was imported';
}

export function linesOf({ line, last }: Pick<Row, 'line' | 'last'>): number {
  return last - line + 1;
}
