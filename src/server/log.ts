/** The log: writes lines to stdout without delaying requests. A full, closed or stalled destination cannot stop the server. */
import fs from 'node:fs';
import { Socket } from 'node:net';
import { hostname } from 'node:os';
import { isatty } from 'node:tty';
import { type Logger, pino } from 'pino';
import type { Config } from '../config.ts';
import { createSampledRequestLog, type OnEnd } from '../http/request-log.ts';
import { terminalFormat } from './terminal-log.ts';

/** The file descriptor: process.stdout would open its own stream. */
const stdout = 1;

export interface Log {
  logger: Logger;
  /** Writes a request's log line if the log level includes info, and LOG_SAMPLE does not leave it out. */
  logRequest: OnEnd;
  /** Number of lines lost because they could not be written or the buffer was full. */
  lostLines: () => number;
  /** Resolves when everything is written, or after a second. */
  end: () => Promise<void>;
}

/** Lines wait up to this long, to be written together. */
const flushEveryMs = 100;

/** Size of the buffer in bytes: a few seconds of requests. If it is full, lines are dropped and counted. */
const maxWaiting = 4 * 1024 * 1024;

/**
 * Large blocks save thread switches, one per block for a file. If several processes write to one pipe, only writes of up to PIPE_BUF bytes
 * are atomic (pipe(7)).
 */
const blockBytes = { alone: 256 * 1024, several: 4096 };

const endWithinMs = 1000;
const exitWithinMs = 200;
const retryDelayMs = 5;

interface Destination {
  write(lines: string): void;
  lost(): number;
  /** Writes all buffered lines synchronously, for a process that is about to exit. Gives up after 200 ms. */
  flushSync(): void;
  end(): Promise<void>;
}

/** Writes a block, then calls back with the unwritten rest, or with undefined if the destination is closed for good. */
type WriteBlock = (block: Buffer, done: (left: Buffer | undefined) => void) => void;

const countLines = (bytes: Buffer) => bytes.toString('latin1').split('\n').length - 1;

/** Writes to a pipe or socket without blocking: a pool thread that waits for the reader would keep the process from exiting. */
function pipeWriter(descriptor: number): WriteBlock {
  const pipe = new Socket({ fd: descriptor, readable: false, writable: true }).unref();
  let closed = false;
  pipe.on('error', () => {
    closed = true;
  });
  return (block, done) => {
    if (closed) return done(undefined);
    pipe.write(block, (error) => done(error ? undefined : Buffer.alloc(0)));
  };
}

function fileWriter(descriptor: number): WriteBlock {
  return (block, done) => {
    fs.write(descriptor, block, (error, written) => {
      if (error) done(error.code === 'EBADF' || error.code === 'EPIPE' ? undefined : block);
      // A file accepts only part of a block if its disk is full.
      else done(block.subarray(written));
    });
  };
}

/** Maximum UTF-8 bytes per UTF-16 code unit of a string. */
const maxCharacterBytes = 3;

/** Opens `descriptor` for log lines. Writes blocks of at most `size` bytes; a longer line is its own block. */
export function openDestination(descriptor: number, size: number): Destination {
  const kind = fs.fstatSync(descriptor);
  const writeBlock = kind.isFIFO() || kind.isSocket() ? pipeWriter(descriptor) : fileWriter(descriptor);
  let block = Buffer.allocUnsafeSlow(size);
  let used = 0;
  /** Blocks that wait to be written. */
  let full: Buffer<ArrayBuffer>[] = [];
  /** A written block for reuse: allocating memory costs more than filling it. A block has its memory to itself. */
  let spare: Buffer<ArrayBuffer> | undefined;
  let waiting = 0;
  let writing = false;
  let closed = false;
  let lost = 0;
  let ended: (() => void) | undefined;

  function closeBlock(): void {
    if (used === 0) return;
    full.push(block.subarray(0, used));
    block = spare ?? Buffer.allocUnsafeSlow(size);
    spare = undefined;
    used = 0;
  }

  /** Empties the buffer and returns its content. */
  function take(): Buffer {
    closeBlock();
    const all = Buffer.concat(full);
    full = [];
    waiting = 0;
    return all;
  }

  function next(): void {
    if (writing) return;
    if (full.length === 0) closeBlock();
    const bytes = full.shift();
    if (bytes === undefined) {
      ended?.();
      return;
    }
    waiting -= bytes.length;
    writing = true;
    writeBlock(bytes, (left) => {
      writing = false;
      closed = left === undefined;
      lost += left === undefined ? countLines(bytes) + countLines(take()) : countLines(left);
      if (bytes.buffer.byteLength === size) spare = Buffer.from(bytes.buffer);
      // A block that is not full waits for the timer; otherwise there would be one write for every few lines.
      if (full.length > 0 || ended) next();
    });
  }

  /** Returns the bytes that could not be written before `deadline`. */
  function writeSync(bytes: Buffer, deadline: number): Buffer {
    let left = bytes;
    while (left.length > 0) {
      try {
        left = left.subarray(fs.writeSync(descriptor, left));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || Date.now() > deadline) return left;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryDelayMs);
      }
    }
    return left;
  }

  const timer = setInterval(next, flushEveryMs).unref();

  return {
    write(line) {
      const room = line.length * maxCharacterBytes;
      if (closed || waiting + room > maxWaiting) {
        lost += 1;
        return;
      }
      if (used + room > size) {
        closeBlock();
        if (!writing) setImmediate(next);
      }
      if (room > size) {
        const bytes = Buffer.from(line);
        full.push(bytes);
        waiting += bytes.length;
        return;
      }
      const written = block.write(line, used);
      used += written;
      waiting += written;
    },

    lost: () => lost,

    flushSync() {
      const deadline = Date.now() + exitWithinMs;
      closeBlock();
      // Write each block separately: larger writes could mix with those of other processes.
      for (const bytes of full.splice(0)) {
        waiting -= bytes.length;
        lost += countLines(closed ? bytes : writeSync(bytes, deadline));
      }
    },

    end() {
      clearInterval(timer);
      return new Promise((resolve) => {
        ended = resolve;
        setTimeout(resolve, endWithinMs).unref();
        next();
      });
    },
  };
}

/** Writes JSON, except to the terminal of a developer. */
async function openStdout({ DEPLOYMENT, WORKERS }: Config): Promise<Destination> {
  const destination = openDestination(stdout, WORKERS === '1' ? blockBytes.alone : blockBytes.several);
  const format = DEPLOYMENT === 'development' && isatty(stdout) ? await terminalFormat() : undefined;
  return format ? { ...destination, write: (line) => destination.write(format(line)) } : destination;
}

export async function openLog(config: Config): Promise<Log> {
  const destination = await openStdout(config);
  const base = { pid: process.pid, hostname: hostname() };
  const { write, flushSync, lost, end } = destination;
  const stream = { write, flushSync, flush: flushSync };
  const logger = pino({ level: config.LOG_LEVEL, base }, stream);
  const logRequest = createSampledRequestLog(write, JSON.stringify(base).slice(1, -1), config.LOG_SAMPLE);
  process.on('exit', flushSync);
  // If stderr's reader is gone, the error cannot be reported anywhere.
  process.stderr.on('error', () => undefined);
  process.on('uncaughtException', (error) => {
    logger.fatal({ err: error }, 'uncaught');
    process.exit(1);
  });
  return {
    logger,
    logRequest: logger.isLevelEnabled('info') ? logRequest : () => undefined,
    lostLines: lost,
    end,
  };
}
