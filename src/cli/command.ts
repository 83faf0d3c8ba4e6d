/** What a command is, and what it is given: the settings, the store that they name, and the caller's streams. */
import { statSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import type { Config } from '../config.ts';
import type { CommandEvent } from '../core/people.ts';
import { printError, readEnvironment } from '../server/environment.ts';
import { describeStore, openStore, sqliteFile } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import type { kinds } from './kinds.ts';

type NameOf<Label> = Label extends `[${infer Inner}]`
  ? NameOf<Inner>
  : Label extends `--${infer Name} <${string}>` | `--${infer Name}` | `<${infer Name}>`
    ? Name
    : never;
type ValueOf<Label> = Label extends `[${infer Inner}]`
  ? ValueOf<Inner> | undefined
  : Label extends `${string}<${infer Kind}>`
    ? Kind extends keyof typeof kinds
      ? NonNullable<ReturnType<(typeof kinds)[Kind]['read']>>
      : string
    : true;

/** `[--expires <lifetime>]`, in brackets if it can be left out, gives `expires`, of the kind `lifetime`; `<file>` gives `file`. */
type Values<Inputs> = { [Label in keyof Inputs as NameOf<Label>]: ValueOf<Label> };

type Inputs = Record<string, string>;

export interface Command<Given extends Inputs = Inputs> {
  about: string;
  /** What follows its name in an example that the usage does not make plain. */
  example?: string;
  /** Its arguments and options as in its usage, and what each is about. */
  inputs: Given;
  run: (cli: Cli, values: Values<Given>) => Promise<void>;
}

/** Gives the values of `run` their types. */
export const command = <Given extends Inputs>(definition: Command<Given>) => definition as unknown as Command;

export const jsonOption = { '[--json]': 'print JSON' } as const;

/** A refusal that the operator reads as one sentence a line. */
export class CommandError extends Error {}

export function found<Found>(value: Found | undefined, sentence: string): Found {
  if (value === undefined) throw new CommandError(sentence);
  return value;
}

export const now = () => new Date();

export const counted = (noun: string, count = 0) => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** `schemaVersion` as `schema version`. */
export const inWords = (name: string) => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** A date that is null is one that never comes. */
const textOf = (value: unknown) => (value instanceof Date ? value.toISOString() : String(value ?? 'never'));

type TerminalStream = Writable & { isTTY?: boolean };

/** The caller's streams; a real process passes its own. */
export interface Io {
  stdin: Readable;
  stdout: TerminalStream;
  stderr: TerminalStream;
}

const redrawMs = 100;
const clearToEnd = '\x1b[K';

export type Cli = ReturnType<typeof createCli>;

export function createCli(env: NodeJS.ProcessEnv, io: Io) {
  const { stdout, stderr } = io;
  let config: Config | undefined;
  let progressShown = false;

  /** Throws ConfigError. */
  const settings = () => {
    config ??= readEnvironment(env, '.');
    return config;
  };

  function clearProgress(): void {
    if (progressShown) stderr.write(`\r${clearToEnd}`);
    progressShown = false;
  }

  function print(text: string): void {
    clearProgress();
    stdout.write(`${text}\n`);
  }

  /** Prints a line on stderr that is not an error. */
  function note(text: string): void {
    clearProgress();
    stderr.write(`${text}\n`);
  }

  const printJson = (value: unknown) => print(JSON.stringify(value, null, 2));
  // Of a checkpoint that fails: nothing is lost, and a later one succeeds.
  const logger = { warn: note, error: () => undefined };

  return {
    /** With what .env adds after `settings`. */
    env,
    io,
    settings,
    logger,
    print,
    printJson,
    note,

    printError(sentences: string) {
      clearProgress();
      printError(stderr, sentences);
    },

    /** Prints rows under the names of their members, each column as wide as its widest cell; without rows, the sentence. */
    printTable(rows: object[], empty: string) {
      const [first] = rows;
      if (!first) return print(empty);
      const table = [Object.keys(first).map((name) => inWords(name).toUpperCase())];
      for (const row of rows) table.push(Object.values(row).map(textOf));
      const widthOf = (column: number) => Math.max(...table.map((cells) => cells[column]?.length ?? 0));
      const widths = Object.keys(first).map((_, column) => widthOf(column) + 2);
      for (const cells of table)
        print(
          cells
            .map((cell, column) => cell.padEnd(widths[column] ?? 0))
            .join('')
            .trimEnd(),
        );
    },

    /** Prints a secret alone on stdout, so that a script can read it, and the explanation on stderr; or both as JSON. */
    printSecret(secret: string, explanation: string, json: object | undefined) {
      if (json) return printJson(json);
      note(explanation);
      print(secret);
    },

    /** Prints an event on stderr, as a server's log has it. On a terminal, the command's own sentence is enough. */
    printEvent({ event, ...ids }: CommandEvent) {
      if (stderr.isTTY) return;
      const base = { level: 30, time: Date.now(), pid: process.pid, hostname: hostname() };
      note(JSON.stringify({ ...base, event, ...ids, msg: event.replaceAll('_', ' ') }));
    },

    /** Returns a function that shows on a terminal how far the work is. */
    progress(what: string) {
      let drawn = Number.NEGATIVE_INFINITY;
      return (done: number, total: number) => {
        const time = performance.now();
        if (!stderr.isTTY || time - drawn < redrawMs) return;
        drawn = time;
        progressShown = true;
        stderr.write(`\r${what}: ${total > 0 ? Math.floor((100 * done) / total) : 100} %${clearToEnd}`);
      };
    },

    /** The path of the store's file. Throws CommandError if the store is in PostgreSQL. */
    storeFile(): string {
      const { DATABASE_URL } = settings();
      if (DATABASE_URL.startsWith('sqlite:')) return sqliteFile(DATABASE_URL);
      throw new CommandError(
        'DATABASE_URL names PostgreSQL: use its own tools, such as pg_dump, as docs/operations.md describes.',
      );
    },

    /**
     * Opens the store, and closes it when `use` ends. Names the store on a terminal. `create`: create the store if it is missing, and a
     * PostgreSQL database's tables; otherwise the command is refused.
     */
    async withStore<Result>(use: (store: Store) => Promise<Result>, create = false): Promise<Result> {
      const { DATABASE_URL } = settings();
      const name = describeStore(DATABASE_URL);
      const missing = DATABASE_URL.startsWith('sqlite:') && !statSync(name, { throwIfNoEntry: false });
      if (missing && !create)
        throw new CommandError(
          `DATABASE_URL: ${name} does not exist: start the server or run animal-store migrate to create it.`,
        );
      if (stderr.isTTY && !missing) note(`Store: ${name}`);
      const store = await openStore(DATABASE_URL, { now, migrate: create, logger });
      if (missing) note(`Created the store ${name}.`);
      const result = await use(store).catch(async (error) => {
        // After a failed fsync, close() fails as well.
        await store.close().catch(() => undefined);
        throw error;
      });
      await store.close();
      return result;
    },
  };
}
