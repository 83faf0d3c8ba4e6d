/** A descriptor for log lines, written without delaying requests. If it is full, closed or not read, lines are lost and counted. */
import fs from 'node:fs';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';

/** Lines wait up to this long, to be written together. */
const flushEveryMs = 100;

/** Size of the buffer in bytes: a few seconds of requests. If it is full, lines are dropped and counted. */
const maxWaiting = 4 * 1024 * 1024;

/** Large blocks save thread switches, one per block for a file. */
const blockBytes = 256 * 1024;

const endWithinMs = 1000;
const exitWithinMs = 200;
const retryDelayMs = 5;

const newline = 10;

export interface Destination {
  write(lines: string): void;
  /**
   * Whether lines of several processes would mix. A full pipe or socket takes a part of a block, and then what another process writes. A file takes
   * whole blocks, one after the other (write(2)).
   */
  readonly mixes: boolean;
  /**
   * Writes the whole lines of another process until that ends its stream. Reads on only when everything read is written, so that a stalled
   * destination fills the buffer of the other process. Closes the stream if the destination is closed, so that the other process counts its losses.
   */
  forward(lines: Readable): Promise<void>;
  lost(): number;
  /** Writes all buffered lines synchronously, for a process that is about to exit. Gives up after 200 ms. */
  flushSync(): void;
  /** Resolves when everything is written, or after a second. */
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

async function forwardLines(stream: Readable, writeBlock: WriteBlock): Promise<void> {
  let rest = Buffer.alloc(0);
  for await (const chunk of stream) {
    const bytes = Buffer.concat([rest, chunk]);
    const end = bytes.lastIndexOf(newline) + 1;
    rest = bytes.subarray(end);
    if (end === 0) continue;
    const { promise, resolve } = Promise.withResolvers<Buffer | undefined>();
    writeBlock(bytes.subarray(0, end), resolve);
    if ((await promise) === undefined) return;
  }
}

/** Maximum UTF-8 bytes per UTF-16 code unit of a string. */
const maxCharacterBytes = 3;

/** Opens `descriptor` for log lines. Writes blocks of at most `size` bytes; a longer line is its own block. */
export function openDestination(descriptor: number, size = blockBytes): Destination {
  const kind = fs.fstatSync(descriptor);
  const mixes = kind.isFIFO() || kind.isSocket();
  const writeBlock = mixes ? pipeWriter(descriptor) : fileWriter(descriptor);
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

    mixes,
    forward: (lines) => forwardLines(lines, writeBlock),
    lost: () => lost,

    flushSync() {
      const deadline = Date.now() + exitWithinMs;
      closeBlock();
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
