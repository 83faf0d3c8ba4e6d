/** What every command is given: the caller's streams and folder, the settings, and the store that DATABASE_URL names. */
import { statSync } from 'node:fs';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Config } from '../config.ts';
import { readEnvironment } from '../server/environment.ts';
import { describeStore, openStore, sqliteFile } from '../store/open.ts';
import type { Store, StoreLogger } from '../store/store.ts';
import { createOutput, type Output, type TerminalStream } from './output.ts';

/** The caller's surroundings; a real process passes its own. */
export interface Io {
  /** The folder that relative paths start from, and that may hold a .env. */
  cwd: string;
  stdin: Readable;
  stdout: TerminalStream;
  stderr: TerminalStream;
}

export interface Context extends Output {
  stdin: () => Readable;
  stdout: Writable;
  /** The environment of the caller, and after `settings` what .env adds. */
  env: NodeJS.ProcessEnv;
  /** Throws ConfigError. */
  settings: () => Config;
  /** The absolute path of a file that the operator names. */
  resolve: (file: string) => string;
  /** The text with each resolved path replaced by the name that the operator gave. */
  asGiven: (text: string) => string;
  /** DATABASE_URL, with the absolute path of an SQLite file. */
  databaseUrl: () => string;
  /** The absolute path of the store's file. Throws CommandError if the store is in PostgreSQL. */
  storeFile: () => string;
  /** Prints what the store reports. */
  logger: StoreLogger;
  /** Opens the store, and closes it when `use` ends. Names the store on a terminal, or if the command creates it. */
  withStore: <Result>(use: (store: Store) => Promise<Result>, options?: StoreOptions) => Promise<Result>;
}

interface StoreOptions {
  /** Create the store if it is missing, and a PostgreSQL database's tables. Otherwise the command is refused. */
  create?: boolean;
}

/** A refusal that the operator reads as one sentence a line. */
export class CommandError extends Error {}

export function found<Found>(value: Found | undefined, sentence: string): Found {
  if (value === undefined) throw new CommandError(sentence);
  return value;
}

export const now = () => new Date();

function createNames(cwd: string): Pick<Context, 'resolve' | 'asGiven'> {
  /** Absolute path → the name that was given, the first if there were several. */
  const givenNames = new Map<string, string>();
  return {
    resolve(file) {
      const resolved = path.resolve(cwd, file);
      if (!givenNames.has(resolved)) givenNames.set(resolved, file);
      return resolved;
    },
    asGiven(text) {
      // The longest first: a folder's path begins the paths of its files.
      const names = [...givenNames].sort(([one], [other]) => other.length - one.length);
      return names.reduce((changed, [resolved, given]) => changed.replaceAll(resolved, () => given), text);
    },
  };
}

async function useAndClose<Result>(store: Store, use: (store: Store) => Promise<Result>): Promise<Result> {
  const result = await use(store).catch(async (error) => {
    // After a failed fsync, close() fails as well.
    await store.close().catch(() => undefined);
    throw error;
  });
  await store.close();
  return result;
}

export function createContext(env: NodeJS.ProcessEnv, io: Io): Context {
  const { cwd, stdout, stderr } = io;
  const { resolve, asGiven } = createNames(cwd);
  let config: Config | undefined;

  const settings = () => {
    config ??= readEnvironment(env, cwd);
    return config;
  };
  const output = createOutput(stdout, stderr);
  const databaseUrl = () => {
    const url = settings().DATABASE_URL;
    return url.startsWith('sqlite:') ? `sqlite:${resolve(sqliteFile(url))}` : url;
  };
  // Of a checkpoint that fails: nothing is lost, and a later one succeeds.
  const logger = { warn: output.note, error: () => undefined };
  return {
    ...output,
    stdin: () => io.stdin,
    stdout,
    env,
    settings,
    resolve,
    asGiven,
    databaseUrl,
    storeFile: () => {
      const url = databaseUrl();
      if (!url.startsWith('sqlite:'))
        throw new CommandError(
          'DATABASE_URL names PostgreSQL: use its own tools, such as pg_dump, as docs/operations.md describes.',
        );
      return sqliteFile(url);
    },
    logger,
    withStore: async (use, { create = false } = {}) => {
      const url = settings().DATABASE_URL;
      const file = url.startsWith('sqlite:') ? resolve(sqliteFile(url)) : undefined;
      const name = describeStore(url);
      const missing = file !== undefined && statSync(file, { throwIfNoEntry: false }) === undefined;
      if (missing && !create) {
        throw new CommandError(
          `DATABASE_URL: ${name} does not exist: start the server or run animal-store migrate to create it.`,
        );
      }
      if (stderr.isTTY && !missing) output.note(`Store: ${name}`);
      const options = { now, migrate: create, logger };
      const store = await openStore(file === undefined ? url : `sqlite:${file}`, options);
      if (missing) output.note(`Created the store ${name}.`);
      return useAndClose(store, use);
    },
  };
}
