/** The log: lines on stdout that no request waits for, and that a full, closed or unread destination cannot stop the server with. */
import fs from 'node:fs';
import { Socket } from 'node:net';
import { hostname } from 'node:os';
import { isatty } from 'node:tty';
import { type Logger, pino } from 'pino';
import type { Config } from '../config.ts';
import { createRequestLog, type Observe } from '../http/request-log.ts';

/** process.stdout would open a stream of its own for it. */
const stdout = 1;

export interface Log {
  logger: Logger;
  /** Writes the line of a request, where the level allows. */
  logRequest: Observe;
  /** Lines that could not be written, or had no room. */
  lostLines: () => number;
  /** Resolves when everything is written, or when that takes longer than a second. */
  end: () => Promise<void>;
}

/** Lines wait for so long to be written together. */
const flushEveryMs = 100;

/** Bytes that may wait: some seconds of requests. Lines beyond them are lost, and counted. */
const maxWaiting = 4 * 1024 * 1024;

/**
 * Each block costs a change of threads where it goes to a file. Where several processes write to one pipe, it takes only so many bytes as
 * one (pipe(7), PIPE_BUF).
 */
const blockBytes = { alone: 256 * 1024, several: 4096 };

const endWithinMs = 1000;
const exitWithinMs = 200;
const askAgainMs = 5;

interface Destination {
  write(lines: string): void;
  lost(): number;
  /** Writes at once what waits, for a process that is about to exit. Gives up after a fifth of a second. */
  flushSync(): void;
  end(): Promise<void>;
}

/** Writes a block; calls back with what was left of it, or undefined where the destination takes no more, ever. */
type WriteBlock = (block: Buffer, done: (left: Buffer | undefined) => void) => void;

const countLines = (bytes: Buffer) => bytes.toString('latin1').split('\n').length - 1;

/** A pipe or a socket, without blocking: a thread of Node's pool that waits for a reader would keep the process from exiting. */
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
      // A file takes a part only where its disk is full.
      else done(block.subarray(written));
    });
  };
}

/** The most bytes that a character of a string takes in UTF-8. */
const maxCharacterBytes = 3;

/** Opens `descriptor` for lines, which go in blocks of `size` bytes or less, but for a longer line. */
export function openDestination(descriptor: number, size: number): Destination {
  const kind = fs.fstatSync(descriptor);
  const writeBlock = kind.isFIFO() || kind.isSocket() ? pipeWriter(descriptor) : fileWriter(descriptor);
  let block = Buffer.allocUnsafe(size);
  let used = 0;
  /** Blocks that wait to be written. */
  let full: Buffer[] = [];
  /** One that was written, to be filled again: fresh memory costs more than what is written to it. */
  let spare: Buffer<ArrayBuffer> | undefined;
  let waiting = 0;
  let writing = false;
  let closed = false;
  let lost = 0;
  let ended: (() => void) | undefined;

  function closeBlock(): void {
    if (used === 0) return;
    full.push(block.subarray(0, used));
    block = spare ?? Buffer.allocUnsafe(size);
    spare = undefined;
    used = 0;
  }

  /** All that waits, which waits no more. */
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
      lost += closed ? countLines(bytes) + countLines(take()) : countLines(left as Buffer);
      if (bytes.buffer.byteLength === size) spare = Buffer.from(bytes.buffer as ArrayBuffer);
      // A block that is not full waits for the timer: to write what came meanwhile would be a write for every few lines.
      if (full.length > 0 || ended) next();
    });
  }

  /** Returns what could not be written by then. */
  function writeSync(bytes: Buffer, deadline: number): Buffer {
    let left = bytes;
    while (left.length > 0) {
      try {
        left = left.subarray(fs.writeSync(descriptor, left));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || Date.now() > deadline) return left;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, askAgainMs);
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
      // Block by block: another process may write between two.
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

/** Readable lines on a terminal, where the development dependency for them is installed; otherwise JSON. */
async function openStdout(size: number): Promise<Destination> {
  /* c8 ignore start -- on a terminal, which takes what ran with it when it goes */
  if (isatty(stdout)) {
    const pretty = await import('pino-pretty').catch(() => undefined);
    const options = { sync: true, singleLine: true, translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname' };
    const stream = pretty?.default(options);
    if (stream)
      return {
        write: (line) => void stream.write(line),
        lost: () => 0,
        flushSync: () => undefined,
        end: async () => undefined,
      };
  }
  /* c8 ignore stop */
  return openDestination(stdout, size);
}

export async function openLog({ LOG_LEVEL, WORKERS }: Config): Promise<Log> {
  const destination = await openStdout(WORKERS === '1' ? blockBytes.alone : blockBytes.several);
  const base = { pid: process.pid, hostname: hostname() };
  const { write, flushSync, lost, end } = destination;
  const logger = pino({ level: LOG_LEVEL, base }, { write, flushSync, flush: flushSync } as never);
  const logRequest = createRequestLog(write, JSON.stringify(base).slice(1, -1));
  process.on('exit', flushSync);
  /* c8 ignore next -- its reader may be gone; there is nobody left to tell */
  process.stderr.on('error', () => undefined);
  /* c8 ignore next 4 -- a bug of ours: what is logged is written when the process exits */
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
