/** Settings from the environment and .env, and errors for the operator on stderr. */
import { type Config, ConfigError, readConfig } from '../config.ts';

/** Reads .env, if there is one, then all settings. Throws ConfigError. */
export function readEnvironment(): Config {
  try {
    process.loadEnvFile();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // Without its .env a command might work on another store than the server's.
    if (code !== 'ENOENT') throw new ConfigError(`.env cannot be read: ${message.replace(/\.$/, '')}.`);
  }
  return readConfig(process.env);
}

/** Prints each line on stderr, after the program's name. */
export function printError(sentences: string): void {
  process.stderr.write(`animal-store: ${sentences.replaceAll('\n', '\nanimal-store: ')}\n`);
}

/** Prints one sentence and exits with 1. For errors before anything was served. */
export function refuseToStart(sentence: string): never {
  printError(sentence);
  process.exit(1);
}
