/** What the server's and the operator's processes share: settings from the environment and .env, and one way to complain. */
import { type Config, ConfigError, readConfig } from '../config.ts';

/** Reads .env, where there is one, then all settings. Throws ConfigError. */
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

/** Each line on stderr, under the program's name. */
export function complain(sentences: string): void {
  process.stderr.write(`animal-store: ${sentences.replaceAll('\n', '\nanimal-store: ')}\n`);
}
