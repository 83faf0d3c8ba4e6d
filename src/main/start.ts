/** What every process of the server does before it serves: settings, log, store, each refused with one sentence. */
import { readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Config, ConfigError } from '../config.ts';
import { openRepository } from '../repository/open.ts';
import type { OpenError, Repository } from '../repository/repository.ts';
import { complain, readEnvironment } from './environment.ts';

const fatalDelayMs = 500;

/** The release that runs. */
export const { version: release } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { version: string };

/** The operator's one sentence, and no more: nothing was served yet. */
export function refuseToStart(sentence: string): never {
  complain(sentence);
  process.exit(1);
}

export function loadConfig(): Config {
  try {
    return readEnvironment();
  } catch (error) {
    return refuseToStart((error as ConfigError).message);
  }
}

/** Opens the store. Where it can promise nothing more, what waits is answered 503 and the process ends, for another to take its place. */
export async function openStore(
  config: Config,
  logger: Logger,
  onCommit?: (writes: number) => void,
): Promise<Repository> {
  const onMigration = (name: string) => logger.info(`migration ${name} applied`);
  /* c8 ignore start -- the disk must fail for this */
  const onCheckpointFailure = (error: Error) => {
    logger.error({ err: error }, 'a checkpoint failed: the write-ahead log grows until one succeeds');
  };
  const onFatal = (error: Error) => {
    logger.fatal({ err: error }, 'the store can no longer be written to');
    setTimeout(() => process.exit(1), fatalDelayMs);
  };
  /* c8 ignore stop */
  try {
    const hooks = { onMigration, onFatal, onCheckpointFailure, onCommit };
    const migrate = config.DEPLOYMENT !== 'production';
    return await openRepository(config.DATABASE_URL, { now: () => new Date(), migrate, ...hooks });
  } catch (error) {
    return refuseToStart(`DATABASE_URL: ${(error as OpenError).message}`);
  }
}
