/** What every process of the server does before it serves: settings, log, store, each refused with one sentence. */
import { readFileSync } from 'node:fs';
import { type DestinationStream, type Logger, pino } from 'pino';
import type { Config, ConfigError } from '../config.ts';
import { openRepository } from '../repository/open.ts';
import type { OpenError, Repository } from '../repository/repository.ts';
import { complain, readEnvironment } from './environment.ts';

const fatalDelayMs = 500;
const logFlushMs = 100;

/** Blocks hold whole lines. Where several processes write to one pipe, it takes only 4096 bytes at once (pipe(7), PIPE_BUF). */
const logBlock = { alone: { minLength: 32_768, maxWrite: 65_536 }, several: { minLength: 2048, maxWrite: 4096 } };

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

/** Passes the lines of a turn of the event loop on as one: pino's stream measures its whole block anew at each write. */
function byTurns(open: () => ReturnType<typeof pino.destination>, maxWrite: number): DestinationStream {
  let lines = '';
  function pass(): void {
    if (lines !== '') stream.write(lines);
    lines = '';
  }
  // Before pino's own, which writes what its stream holds when the process exits.
  process.on('exit', pass);
  const stream = open();
  setInterval(() => stream.flush(), logFlushMs).unref();
  return {
    write(line: string) {
      if (lines === '') setImmediate(pass);
      else if (lines.length + line.length > maxWrite) pass();
      lines += line;
    },
    flush() {
      pass();
      stream.flushSync();
    },
  } as DestinationStream;
}

/** Readable lines on a terminal, where the development dependency for them is installed; otherwise JSON, written in blocks. */
async function openLogStream(block: { minLength: number; maxWrite: number }): Promise<DestinationStream> {
  /* c8 ignore start -- on a terminal, which takes what ran with it when it goes */
  if (process.stdout.isTTY) {
    const pretty = await import('pino-pretty').catch(() => undefined);
    if (pretty)
      return pretty.default({ sync: true, singleLine: true, translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname' });
  }
  /* c8 ignore stop */
  return byTurns(() => pino.destination({ fd: 1, sync: false, ...block }), block.maxWrite);
}

export async function openLog(config: Config): Promise<Logger> {
  const stream = await openLogStream(config.WORKERS === '1' ? logBlock.alone : logBlock.several);
  const logger = pino({ level: config.LOG_LEVEL }, stream);
  /* c8 ignore next 4 -- a bug of ours: what is logged is written when the process exits */
  process.on('uncaughtException', (error) => {
    logger.fatal({ err: error }, 'uncaught');
    process.exit(1);
  });
  return logger;
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
