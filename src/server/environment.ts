/** Settings from the environment and .env, and errors for the operator on stderr. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Writable } from 'node:stream';
import { parseEnv } from 'node:util';
import { type Config, ConfigError, readConfig, settings } from '../config.ts';

/** Settings that contain passwords. NAME_FILE names a file with the value of NAME. */
const secrets = ['DATABASE_URL'] as const;

/**
 * Reads all settings from `env` and from the .env in `folder`, if there is one; `env` wins. Throws ConfigError. Adds to `env` what only .env
 * has: the PostgreSQL driver reads variables of its own, such as PGPASSWORD, from the process.
 */
export function readEnvironment(env: NodeJS.ProcessEnv, folder: string): Config {
  for (const [name, value] of Object.entries(readDotEnv(folder))) env[name] ??= value;
  const found = readSecrets(env, folder);
  return readConfig({ ...env, ...found }, Object.keys(found));
}

/** The names in the .env of `folder` that are no settings, and none that the PostgreSQL driver reads. */
export function findUnknownNames(folder: string): string[] {
  const isSetting = (name: string) => Object.hasOwn(settings.properties, name.replace(/_FILE$/, ''));
  return Object.keys(readDotEnv(folder)).filter((name) => !isSetting(name) && !name.startsWith('PG'));
}

/** The values of the secrets that files hold. They stay out of `env`, which child processes inherit. */
function readSecrets(env: NodeJS.ProcessEnv, folder: string): NodeJS.Dict<string> {
  const found: NodeJS.Dict<string> = {};
  for (const name of secrets) {
    const file = env[`${name}_FILE`];
    if (!file) continue;
    if (env[name]) throw new ConfigError(`${name} and ${name}_FILE are both set: set only one of them.`);
    try {
      found[name] = readFileSync(path.resolve(folder, file), 'utf8').replace(/\r?\n$/, '');
    } catch (error) {
      throw new ConfigError(`${name}_FILE: ${unreadable(file, error as NodeJS.ErrnoException)}.`);
    }
    // It would count as unset.
    if (found[name] === '') throw new ConfigError(`${name}_FILE names an empty file: ${file}.`);
  }
  return found;
}

/** Why a file cannot be read, as the end of a sentence. */
function unreadable(file: string, { code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return `the file ${file} does not exist`;
  if (code === 'EISDIR') return `${file} is a folder`;
  if (code === 'EACCES') return `this user may not read ${file}`;
  return message;
}

function readDotEnv(folder: string): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(path.join(folder, '.env'), 'utf8'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return {};
    // Without its .env, a command might work on another store than the server's.
    throw new ConfigError(`.env cannot be read: ${message}.`);
  }
}

/** Prints each line on `stderr`, after the program's name. */
export function printError(stderr: Writable, sentences: string): void {
  stderr.write(`animal-store: ${sentences.replaceAll('\n', '\nanimal-store: ')}\n`);
}

/** Prints one sentence and exits with 1, for errors before the server accepts requests. */
export function refuseToStart(sentence: string): never {
  printError(process.stderr, sentence);
  process.exit(1);
}
