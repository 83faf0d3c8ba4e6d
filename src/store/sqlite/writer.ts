/** The main thread's side of the writer: batches writes, limits the queue, and settles each write's promise. */
import { Worker } from 'node:worker_threads';
import { ApiError } from '../../core/errors.ts';
import type { CommandName, Input, Outcome } from '../commands.ts';
import { type OpenOptions, unavailable } from '../store.ts';
import type { NewPetRow, PetOutcome, Write } from './commands.ts';
import { primaryCodeOf, translate } from './connection.ts';
import type { Reply, Request } from './writer-thread.ts';

interface Waiting {
  resolve(output: unknown): void;
  reject(error: unknown): void;
}

/** The heap for short-lived objects. V8 would let it grow to 96 MB, which brings no speed. */
const maxYoungGenerationSizeMb = 12;

/**
 * After a failed fsync, the content on disk is unknown, and a second fsync may wrongly succeed (https://sqlite.org/rescode.html,
 * SQLITE_IOERR_FSYNC; PostgreSQL's fsync errata of 2018). This process must not acknowledge any more writes.
 */
const fatal = ['SQLITE_IOERR_FSYNC', 'SQLITE_IOERR_DIR_FSYNC'];

/** The id of an animal is beyond its constraint. Every other CHECK holds what was validated before. */
const noIdLeft = 'SQLITE_CONSTRAINT_CHECK';

/** Maximum number of waiting writes: while a disk hangs, clients give up and others come, but their writes stay. */
const maxWaiting = 4000;

const noFailures = { disk_full: 0, locked: 0, io: 0, other: 0 };

/** Primary result codes with a reason of their own. */
const reasons: Readonly<Record<string, keyof typeof noFailures>> = {
  SQLITE_FULL: 'disk_full',
  SQLITE_BUSY: 'locked',
  SQLITE_LOCKED: 'locked',
  SQLITE_IOERR: 'io',
};

type WriterOptions = Pick<OpenOptions, 'onFatal' | 'logger' | 'metrics'>;

/** Starts the writer thread on the store in `file`. `given`: its path in the settings, which may be a link. */
export function startWriter(file: string, { onFatal, logger, metrics }: WriterOptions, given = file) {
  const worker = new Worker(new URL('./writer-thread.ts', import.meta.url), {
    workerData: [file, given],
    resourceLimits: { maxYoungGenerationSizeMb },
  });
  /** The writes without an outcome, oldest first: those that the thread has, then the unsent ones. */
  const waiting: Waiting[] = [];
  const failedWrites = { ...noFailures };
  let unsent: Write[] = [];
  let broken: ApiError | undefined;
  let closing = false;
  let fsyncError: Error | undefined;

  let crash = new Error('the writer thread exited');
  worker.on('message', (reply: Reply) => {
    if (reply?.type === 'writer-reply') settle(reply);
  });
  worker.on('error', (error: Error) => {
    crash = error;
  });
  const ended = new Promise<void>((resolve) => {
    worker.on('exit', () => {
      giveUp(crash);
      resolve();
    });
  });

  function post(): void {
    worker.postMessage(JSON.stringify(unsent) satisfies Request);
    unsent = [];
  }

  /** Sends all collected writes in one message, if the thread has none: a batch grows while the thread waits for the disk. */
  function send(): void {
    if (unsent.length > 0 && unsent.length >= waiting.length) post();
  }

  /**
   * Waits three turns: the responses leave in the first, and the clients' next requests share the commit. Without it, 32 clients share 19 writes a commit, not 25,
   * and a create takes a tenth more CPU time.
   */
  function sendSoon(): void {
    setImmediate(() => setImmediate(() => setImmediate(send)));
  }

  function fail(writes: Waiting[], cause: Error, failure: unknown): void {
    for (const { reject } of writes) reject(failure);
    failedWrites[reasons[primaryCodeOf(cause)] ?? 'other'] += writes.length;
    if (writes.length > 0) metrics?.failed(cause, writes.length);
  }

  function giveUp(cause: Error): void {
    broken = unavailable(cause);
    fail(waiting.splice(0), cause, broken);
    if (!closing) onFatal?.(cause);
  }

  /** Settles the oldest writes, which shared a transaction; none, if the reply is about a checkpoint. */
  function settle(reply: Reply): void {
    const answered = waiting.splice(0, reply.count);
    if ('outputs' in reply) {
      const outputs: unknown[] = JSON.parse(reply.outputs);
      // JSON has null for an output that is undefined.
      let at = 0;
      for (const { resolve } of answered) resolve(outputs[at++] ?? undefined);
      if (reply.count > 0) metrics?.commit(reply.count);
      sendSoon();
      return;
    }
    const { code = '', message } = reply.error;
    const cause = Object.assign(new Error(message), { code });
    fail(answered, cause, code === noIdLeft ? unavailable(cause) : translate(cause));
    if (fatal.includes(code)) {
      fsyncError = cause;
      giveUp(cause);
      return;
    }
    // A failed checkpoint loses nothing: the data stays in the WAL, and the next checkpoint retries.
    if (reply.count === 0)
      logger?.error({ err: cause }, 'a checkpoint failed: the write-ahead log grows until one succeeds');
    sendSoon();
  }

  /**
   * Resolves after the write's commit and fsync, and rejects with ApiError `service_unavailable` if the store cannot write; if the fsync failed,
   * the write may still be on disk. `read` makes the result from the outcome, without a promise of its own.
   */
  function enqueue<Output, Result>(write: Write, read: (output: Output) => Result): Promise<Result> {
    if (broken) return Promise.reject(broken);
    if (waiting.length >= maxWaiting) return Promise.reject(new ApiError('service_unavailable'));
    if (unsent.length === 0) setImmediate(send);
    unsent.push(write);
    return new Promise<Result>((resolve, reject) => {
      waiting.push({ resolve: (output) => resolve(read(output as Output)), reject });
    });
  }

  return {
    addPet: <Result>(pet: NewPetRow, read: (outcome: PetOutcome) => Result) => enqueue(['addPet', pet], read),
    write: <Name extends CommandName>(name: Name, input: Input<Name>) =>
      enqueue([name, input] as Write, (output: Outcome<Name>) => output),
    /** The number of pending writes. */
    waiting: () => waiting.length,
    /** Writes that could not be committed, by reason. */
    failedWrites,
    /** Resolves when all accepted writes are committed and the thread has exited; rejects if the last fsync failed. */
    async close() {
      closing = true;
      broken = unavailable(new Error('the store is closed'));
      post();
      worker.postMessage(null satisfies Request);
      await ended;
      if (fsyncError) throw fsyncError;
    },
  };
}
