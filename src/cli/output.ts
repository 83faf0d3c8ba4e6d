/** What the commands print: tables for people, JSON for programs, and progress on a terminal. */
import { hostname } from 'node:os';
import type { Writable } from 'node:stream';
import type { CommandEvent } from '../core/people.ts';
import { printError } from '../server/environment.ts';

/** A stream that may lead to a terminal, as process.stdout does. */
export type TerminalStream = Writable & { isTTY?: boolean; columns?: number };

export interface Output {
  print: (text: string) => void;
  printJson: (value: unknown) => void;
  /** Rows under their headings, each column as wide as its widest cell. Without rows: the sentence. */
  printTable: (rows: Row[], empty: string) => void;
  /** Prints a line on stderr that is not an error. */
  note: (text: string) => void;
  /** Prints an event on stderr, as a server's log has it. On a terminal, the command's own sentence is enough. */
  printEvent: (event: CommandEvent) => void;
  /** Prints each line on stderr, after the program's name. */
  printError: (sentences: string) => void;
  /** Shows the progress of `work`, in `unit`, until it ends. Shows nothing outside of a terminal. */
  withProgress: <Result>(what: string, unit: string, work: (progress: Progress) => Promise<Result>) => Promise<Result>;
}

type Row = Record<string, string | number | null>;

export interface Progress {
  /** Whether it is shown at all. */
  visible: boolean;
  /** `count`: the units worked on so far, if `done` and `total` measure something else. */
  show: (done: number, total: number, count?: number) => void;
}

const barCells = 30;
const redrawMs = 100;
const clearToEnd = '\x1b[K';

export function createOutput(stdout: TerminalStream, stderr: TerminalStream): Output {
  const print = (text: string) => void stdout.write(`${text}\n`);
  let barShown = false;
  const clearBar = () => void stderr.write(`\r${clearToEnd}`);
  return {
    print,
    printJson: (value) => print(JSON.stringify(value, null, 2)),
    printTable: (rows, empty) => {
      for (const line of rows.length > 0 ? tableOf(rows) : [empty]) print(line);
    },
    note: (text) => {
      if (barShown) clearBar();
      stderr.write(`${text}\n`);
    },
    printEvent: ({ event, account, key }) => {
      if (stderr.isTTY) return;
      const base = { level: 30, time: Date.now(), pid: process.pid, hostname: hostname() };
      stderr.write(`${JSON.stringify({ ...base, event, account, key, msg: event.replaceAll('_', ' ') })}\n`);
    },
    printError: (sentences) => printError(stderr, sentences),
    withProgress: async (what, unit, work) => {
      if (!stderr.isTTY) return work({ visible: false, show: () => undefined });
      barShown = true;
      try {
        return await work({ visible: true, show: bar(stderr, what, unit) });
      } finally {
        barShown = false;
        clearBar();
      }
    },
  };
}

export function counted(noun: string, count = 0): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

export const animals = (count?: number) => counted('animal', count);

function tableOf(rows: Row[]): string[] {
  const [first = {}] = rows;
  const headings = Object.keys(first);
  const table = [headings.map((name) => name.toUpperCase()), ...rows.map((row) => Object.values(row).map(String))];
  const widths = headings.map((_, column) => Math.max(...table.map((cells) => cells[column]?.length ?? 0)));
  return table.map((cells) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

function bar(stderr: Writable, what: string, unit: string): Progress['show'] {
  const start = performance.now();
  let drawn = Number.NEGATIVE_INFINITY;
  return (done, total, count = done) => {
    const now = performance.now();
    if (now - drawn < redrawMs) return;
    drawn = now;
    const share = total > 0 ? Math.min(done / total, 1) : 1;
    const blocks = '█'.repeat(Math.round(share * barCells)).padEnd(barCells, '░');
    const rate = Math.round((count * 1000) / Math.max(now - start, 1));
    stderr.write(`\r${what} ${blocks} ${Math.floor(share * 100)} %, ${count} ${unit}, ${rate}/s${clearToEnd}`);
  };
}
