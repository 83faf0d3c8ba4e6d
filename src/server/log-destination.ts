/** A descriptor for log lines, written without delaying requests. If it is full, closed or not read, lines are lost and counted. */
import fs from 'node:fs';
import { Socket } from 'node:net';

/** Lines wait up to this long, to be written together. */
const flushEveryMs = 100;

/** Size of a buffer: a few seconds of requests. If it is full, lines are dropped and counted. */
const bufferBytes = 4 * 1024 * 1024;

const endWithinMs = 1000;
const exitWithinMs = 200;
const retryDelayMs = 5;

/** Writes a block, then calls back with the unwritten rest, or with undefined if the destination is closed for good. */
type WriteBlock = (block: Buffer, done: (left: Buffer | undefined) => void) => void;

const countLines = (bytes: Buffer) => bytes.toString('latin1').split('\n').length - 1;

/** Writes to a pipe or socket without blocking: a pool thread that waits for the reader would keep the process from exiting. */
function pipeWriter(descriptor: number): WriteBlock {
  const pipe = new Socket({ fd: descriptor, readable: false, writable: true }).unref();
  // The callback of the write gets the error, too, as does that of each later write.
  pipe.on('error', () => undefined);
  return (block, done) => {
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

/** Opens `descriptor` for log lines: one buffer fills while the other is written. */
export function openDestination(descriptor: number) {
  const kind = fs.fstatSync(descriptor);
  const writeBlock = kind.isFIFO() || kind.isSocket() ? pipeWriter(descriptor) : fileWriter(descriptor);
  let [filling, other] = [Buffer.allocUnsafeSlow(bufferBytes), Buffer.allocUnsafeSlow(bufferBytes)];
  let used = 0;
  let writing = false;
  let closed = false;
  let lost = 0;
  let ended: (() => void) | undefined;

  /** Empties the buffer that fills, and returns its content. */
  function take(): Buffer {
    const bytes = filling.subarray(0, used);
    used = 0;
    return bytes;
  }

  function next(): void {
    if (writing) return;
    if (used === 0) {
      ended?.();
      return;
    }
    const bytes = take();
    [filling, other] = [other, filling];
    writing = true;
    writeBlock(bytes, (left) => {
      writing = false;
      closed = left === undefined;
      lost += countLines(left ?? bytes);
      if (closed) lost += countLines(take());
      if (ended) next();
    });
  }

  const timer = setInterval(next, flushEveryMs).unref();

  return {
    write(line: string) {
      if (closed || used + line.length * maxCharacterBytes > bufferBytes) {
        lost += 1;
        return;
      }
      used += filling.write(line, used);
    },

    lost: () => lost,

    /** Writes all buffered lines synchronously, for a process that is about to exit. Gives up after 200 ms. */
    flushSync() {
      const deadline = performance.now() + exitWithinMs;
      let left = take();
      while (left.length > 0) {
        try {
          left = left.subarray(fs.writeSync(descriptor, left));
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || performance.now() > deadline) break;
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryDelayMs);
        }
      }
      lost += countLines(left);
    },

    /** Resolves when everything is written, or after a second. */
    end() {
      clearInterval(timer);
      return new Promise<void>((resolve) => {
        ended = resolve;
        setTimeout(resolve, endWithinMs).unref();
        next();
      });
    },
  };
}
