/** What a command is, and what it is given: the settings, the store that they name, and the caller's streams. */
import { statSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import type { Scope } from '../core/accounts.ts';
import type { CommandEvent } from '../core/people.ts';
import type { PetStatus } from '../core/pets.ts';
import { printable, printError, readEnvironment } from '../server/environment.ts';
import { describeStore, openStore, sqliteFile } from '../store/open.ts';
import type { Store } from '../store/store.ts';

/** The inputs of all commands. Those whose label is in brackets may be undefined. */
export interface Values {
  account: string;
  name: string;
  id: number;
  file: string;
  from: string;
  to: string;
  overlap: number;
  expires?: number;
  scopes?: Scope[];
  status?: PetStatus;
  json?: true;
  force?: true;
}

export interface Command {
  about: string;
  /** Its inputs as in its usage, in brackets if they can be left out, such as `[--expires <lifetime>]`; and what each is about. */
  inputs: Record<string, string>;
  run: (cli: Cli, values: Values) => Promise<void>;
}

export type Commands = Record<string, Command>;

export const jsonOption = { '[--json]': 'print JSON' };

/** An error whose message the operator reads: one sentence per line. */
export class CommandError extends Error {}

/** Throws CommandError. */
export function refuse(sentence: string): never {
  throw new CommandError(sentence);
}

export const found = <Found>(value: Found | undefined, sentence: string): Found => value ?? refuse(sentence);

export const now = () => new Date();

export const counted = (noun: string, count = 0) => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** `schemaVersion` as `schema version`. */
export const inWords = (name: string) => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** The text of a cell. A null date prints as never. */
function textOf(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Object) return Object.values(value).map(textOf).join(' ');
  return printable(String(value ?? 'never')).replaceAll('\n', '\\u000a');
}

/** Rows as lines, each column as wide as its widest cell. */
export function inColumns(rows: string[][]): string {
  const widths =
    rows[0]?.map((_, column) => rows.reduce((most, row) => Math.max(most, row[column]?.length ?? 0), 0)) ?? [];
  const lineOf = (row: string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return rows.map(lineOf).join('\n');
}

/** The caller's streams; a real process passes its own. */
export interface Io {
  stdin: Readable;
  stdout: Writable & { isTTY?: boolean };
  stderr: Writable & { isTTY?: boolean };
}

export type Cli = ReturnType<typeof createCli>;

export function createCli(env: NodeJS.ProcessEnv, io: Io) {
  const { stdout, stderr } = io;

  /** Throws ConfigError. */
  const settings = () => readEnvironment(env);

  const print = (text: string) => void stdout.write(`${printable(text)}\n`);
  /** Prints a line on stderr that is not an error. */
  const note = (text: string) => void stderr.write(`${printable(text)}\n`);
  const printJson = (value: unknown) => print(JSON.stringify(value, null, 2));
  // The errors are failed checkpoints: nothing is lost, and a later one succeeds.
  const logger = { warn: note, error: () => undefined };

  return {
    io,
    settings,
    print,
    printJson,
    note,

    printError: (sentences: string) => printError(stderr, sentences),

    /** Prints rows under the names of their members; without rows, the sentence. */
    printTable(rows: object[], empty = '') {
      const headings = Object.keys(rows[0] ?? {}).map((name) => inWords(name).toUpperCase());
      print(rows.length > 0 ? inColumns([headings, ...rows.map((row) => Object.values(row).map(textOf))]) : empty);
    },

    /** Prints a secret alone on stdout, so that a script can read it, and the explanation on stderr; or both as JSON. */
    printSecret(secret: string, explanation: string, json: object | undefined) {
      if (json) return printJson(json);
      note(explanation);
      print(secret);
    },

    /** Prints an event on stderr, as a server's log has it. On a terminal, the command's own sentence is enough. */
    printEvent(event: CommandEvent, account?: number, key?: number) {
      if (stderr.isTTY) return;
      const base = { level: 30, time: Date.now(), pid: process.pid, hostname: hostname() };
      note(JSON.stringify({ ...base, event, account, key, msg: event.replaceAll('_', ' ') }));
    },

    /** The path of the store's file. Throws CommandError if the store is in PostgreSQL. */
    storeFile(): string {
      const { DATABASE_URL } = settings();
      if (DATABASE_URL.startsWith('sqlite:')) return sqliteFile(DATABASE_URL);
      refuse('DATABASE_URL names PostgreSQL: use its own tools, such as pg_dump, as docs/scaling.md describes.');
    },

    /**
     * Opens the store, and closes it when `use` ends. Names the store on a terminal. `create`: create the store if it is missing, and a
     * PostgreSQL database's tables; otherwise the command is refused.
     */
    async withStore<Result>(use: (store: Store) => Promise<Result>, create = false): Promise<Result> {
      const { DATABASE_URL } = settings();
      const name = describeStore(DATABASE_URL);
      const file = DATABASE_URL.startsWith('sqlite:') ? sqliteFile(DATABASE_URL) : undefined;
      const missing = file !== undefined && !statSync(file, { throwIfNoEntry: false });
      if (missing && !create)
        refuse(`DATABASE_URL: ${file} does not exist: start the server or run animal-store migrate to create it.`);
      if (stderr.isTTY && !missing) note(`Store: ${name}`);
      const store = await openStore(DATABASE_URL, { now, migrate: create, logger });
      if (missing) note(`Created the store ${file}.`);
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
