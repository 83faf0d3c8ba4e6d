/** Checks the lines of an import before any animal is added, and reports the bad ones. */
import { CommandError, type Context } from './context.ts';
import type { Row } from './import-rows.ts';
import { batchesOf, linesOf, nothingOf, pause, petsOf, reportWait, type Task } from './import-task.ts';
import { counted } from './output.ts';

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

/** Checks all lines that were not imported yet. Throws CommandError if it is unknown where a record ends. */
export function checkRows({ withProgress }: Context, task: Task, skipBad: boolean): Promise<Faults> {
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

export function reportOf({ sentences, namedLines, badLines }: Faults): string[] {
  const others = badLines - namedLines;
  return others > 0 ? [...sentences, `And ${counted('more line', others)}.`] : sentences;
}

function placeOf({ line, last }: Row): string {
  return line === last ? `line ${line}` : `lines ${line} to ${last}`;
}

/** A message may quote the line, which may contain control characters that a terminal would obey. */
function printable(text: string): string {
  return text.replace(/\p{C}/gu, '�');
}
