/** The log: lines of pino and of requests, written to stdout. */
import { hostname } from 'node:os';
import { isatty } from 'node:tty';
import { pino } from 'pino';
import type { Config } from '../config.ts';
import { createRequestLog } from '../http/log.ts';
import { openDestination } from './log-destination.ts';
import { terminalFormat } from './terminal-log.ts';

/** The file descriptor: process.stdout would open its own stream. */
const stdout = 1;

export async function openLog(config: Config) {
  const { write: writeText, flushSync, lost, end } = openDestination(stdout);
  // JSON, except to the terminal of a developer.
  const format = config.DEPLOYMENT === 'development' && isatty(stdout) ? await terminalFormat() : undefined;
  const write = format ? (line: string) => writeText(format(line)) : writeText;
  const base = { pid: process.pid, hostname: hostname() };
  const stream = { write, flushSync, flush: flushSync };
  const logger = pino({ level: config.LOG_LEVEL, base }, stream);
  const logRequest = createRequestLog(write, JSON.stringify(base).slice(1, -1));
  process.on('exit', flushSync);
  // If stderr's reader is gone, the error cannot be reported anywhere.
  process.stderr.on('error', () => undefined);
  process.on('uncaughtException', (error) => {
    logger.fatal({ err: error }, 'uncaught');
    process.exit(1);
  });
  return {
    logger,
    /** Whether its lines are for a terminal. */
    isTerminal: format !== undefined,
    /** Writes a request's log line if the log level includes info. */
    logRequest: logger.isLevelEnabled('info') ? logRequest : () => undefined,
    /** Number of lines lost because they could not be written or the buffer was full. */
    lostLines: lost,
    end,
  };
}
