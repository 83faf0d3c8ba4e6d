/** Settings from the environment and .env, and errors for the operator on stderr. */
import path from 'node:path';
import type { Writable } from 'node:stream';
import { type Config, ConfigError, readConfig, settings } from '../config.ts';
import { closest } from '../core/closest.ts';
import { type Entry, readEntries } from '../dotenv.ts';
import { readText } from '../store/files.ts';

/**
 * Reads all settings from `env` and from the .env in the working directory, if there is one; `env` wins. Throws ConfigError. Adds to `env`
 * what only .env has: the PostgreSQL driver reads variables of its own, such as PGPASSWORD, from the process.
 */
export function readEnvironment(env: NodeJS.ProcessEnv): Config {
  const sources = new Map<string, string>();
  for (const [name, { value, line }] of readDotEnv()) {
    if (env[name] === undefined) sources.set(name, `.env line ${line}`);
    env[name] ??= value;
  }
  const secret = readSecret(env);
  if (secret.DATABASE_URL) sources.set('DATABASE_URL', `the file ${env.DATABASE_URL_FILE}`);
  return readConfig({ ...env, ...secret }, (name) => sources.get(name) ?? 'the environment');
}

/** A sentence for each name in .env that is neither a setting nor a variable of the PostgreSQL driver. */
export function findUnknownNames(): string[] {
  const names = Object.keys(settings.properties);
  const unknown = [...readDotEnv()].filter(([name]) => !names.includes(name) && !name.startsWith('PG'));
  return unknown.map(([name, { line }]) => {
    const meant = closest(name, names);
    return `${name} in .env line ${line} is not a setting.${meant ? ` Did you mean ${meant}?` : ''}`;
  });
}

/** DATABASE_URL from the file that DATABASE_URL_FILE names. It stays out of `env`, which child processes inherit. */
function readSecret({ DATABASE_URL, DATABASE_URL_FILE: file }: NodeJS.ProcessEnv): NodeJS.Dict<string> {
  if (!file) return {};
  if (DATABASE_URL) throw new ConfigError('DATABASE_URL and DATABASE_URL_FILE are both set: set only one of them.');
  let url: string;
  try {
    url = readText(path.resolve(file)).replace(/\r?\n$/, '');
  } catch (error) {
    throw new ConfigError(`DATABASE_URL_FILE: ${file} cannot be read: ${(error as Error).message}.`);
  }
  // It would count as unset.
  if (url === '') throw new ConfigError(`DATABASE_URL_FILE names an empty file: ${file}.`);
  return { DATABASE_URL: url };
}

function readDotEnv(): Map<string, Entry> {
  let text: string;
  try {
    text = readText(path.resolve('.env'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return new Map();
    // Without its .env, a command might work on another store than the server's.
    throw new ConfigError(`.env cannot be read: ${message}.`);
  }
  return readEntries(text);
}

/** Escapes control characters, and those that change the direction of a line, as JSON does; but not line feeds. */
export const printable = (text: string) =>
  text.replace(/(?!\n)[\p{Cc}\p{Bidi_C}]/gu, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Prints each line on `stderr`, after the program's name. */
export function printError(stderr: Writable, sentences: string): void {
  stderr.write(`animal-store: ${printable(sentences).replaceAll('\n', '\nanimal-store: ')}\n`);
}

/** Prints one sentence and exits with 1, for errors before the server accepts requests. */
export function refuseToStart(sentence: string): never {
  printError(process.stderr, sentence);
  process.exit(1);
}
