/** The main thread's side of the writer: batches writes, limits the queue, and settles each write's promise. */
import { Worker } from 'node:worker_threads';
import type { ApiError } from '../../errors.ts';
import { type OpenOptions, unavailable } from '../store.ts';
import type { CommandName, Commands } from './commands.ts';
import { translate } from './connection.ts';
import type { Reply, Request, Write } from './writer-thread.ts';

type Input<Name extends CommandName> = Parameters<Commands[Name]>[0];
type Output<Name extends CommandName> = ReturnType<Commands[Name]>;

interface Waiting {
  resolve: (output: never) => void;
  reject: (error: unknown) => void;
  characters: number;
}

export interface Writer {
  /**
   * Resolves after the write's commit and fsync. `input` and the output are JSON. Rejects with ApiError `service_unavailable` if the store
   * cannot write; if the fsync failed, the write may still be on disk. `characters`: the length of text whose size the client chose.
   */
  write<Name extends CommandName>(name: Name, input: Input<Name>, characters?: number): Promise<Output<Name>>;
  /** The number of pending writes. */
  waiting(): number;
  /** Writes that could not be committed, by reason, and when the last of them failed (milliseconds since 1970; 0: never). */
  failures(): { failedWrites: Readonly<Record<string, number>>; lastFailedWriteAt: number };
  /** Resolves when all accepted writes are committed and the thread has exited; rejects if the last fsync failed. */
  close(): Promise<void>;
}

/** Limits on pending writes and their text, which bound memory and waiting time. Beyond them, writes are rejected with 503. */
const maxWaiting = 10_000;
/** At most 64 MiB: V8 stores a character in one or two bytes. */
const maxWaitingCharacters = 32 * 1024 * 1024;

/** The heap for short-lived objects. V8 would let it grow to 96 MB, which brings no speed. */
const maxYoungGenerationSizeMb = 12;

/**
 * After a failed fsync, the content on disk is unknown, and a second fsync may wrongly succeed (https://sqlite.org/rescode.html,
 * SQLITE_IOERR_FSYNC; PostgreSQL's fsync errata of 2018). This process must not acknowledge any more writes.
 */
const fatal = /^SQLITE_IOERR_(DIR_)?FSYNC$/;

/** Primary result codes with a reason of their own (https://sqlite.org/rescode.html). */
const reasons: Readonly<Record<string, string>> = {
  SQLITE_FULL: 'disk_full',
  SQLITE_BUSY: 'locked',
  SQLITE_LOCKED: 'locked',
  SQLITE_IOERR: 'io',
};

function reasonOf(cause: Error): string {
  const [primary = ''] = /^SQLITE_[A-Z]+/.exec(String((cause as NodeJS.ErrnoException).code)) ?? [];
  return reasons[primary] ?? 'other';
}

/** Starts the writer thread on the store in `file`. */
export function startWriter(file: string, { onFatal, onCheckpointFailure, onCommit }: OpenOptions): Writer {
  const thread = new Worker(new URL('./writer-thread.ts', import.meta.url), {
    workerData: file,
    resourceLimits: { maxYoungGenerationSizeMb },
  });
  const waiting: Waiting[] = [];
  let waitingCharacters = 0;
  let unsent: Write[] = [];
  let broken: ApiError | undefined;
  let closing = false;
  let lost: Error | undefined;
  const failedWrites: Record<string, number> = { disk_full: 0, locked: 0, io: 0, other: 0 };
  let lastFailedWriteAt = 0;

  function countFailure(writes: number, cause: Error): void {
    if (writes === 0) return;
    const reason = reasonOf(cause);
    failedWrites[reason] = (failedWrites[reason] as number) + writes;
    lastFailedWriteAt = Date.now();
  }

  /** Sends all collected writes in one message, after the reply to the previous one: a batch grows while the thread waits for the disk. */
  function send(): void {
    if (unsent.length === 0 || unsent.length < waiting.length) return;
    thread.postMessage(JSON.stringify(unsent) satisfies Request);
    unsent = [];
  }

  /** Waits two turns of the event loop: clients that just got a response may send their next request and share the commit. */
  function sendSoon(): void {
    setImmediate(() => setImmediate(send));
  }

  function giveUp(cause: Error): void {
    broken = unavailable(cause);
    countFailure(waiting.length, cause);
    for (const { reject } of waiting.splice(0)) reject(broken);
    if (!closing) onFatal?.(cause);
  }

  thread.on('message', (reply: Reply) => {
    const answered = waiting.splice(0, reply.count);
    for (const { characters } of answered) waitingCharacters -= characters;
    if ('outputs' in reply) {
      const outputs = JSON.parse(reply.outputs) as unknown[];
      for (let at = 0; at < answered.length; at++)
        (answered[at] as Waiting).resolve((outputs[at] ?? undefined) as never);
      if (reply.count > 0) onCommit?.(reply.count);
      sendSoon();
      return;
    }
    const cause = Object.assign(new Error(reply.error.message), reply.error);
    const failure = translate(cause);
    countFailure(answered.length, cause);
    for (const { reject } of answered) reject(failure);
    if (fatal.test(String(reply.error.code))) {
      lost = cause;
      return giveUp(cause);
    }
    // A failed checkpoint loses nothing: the data stays in the WAL, and the next checkpoint retries.
    if (reply.count === 0) onCheckpointFailure?.(cause);
    sendSoon();
  });
  let crash = new Error('the writer thread exited');
  thread.on('error', (error: Error) => {
    crash = error;
  });
  const ended = new Promise<void>((resolve) => {
    thread.on('exit', () => {
      giveUp(crash);
      resolve();
    });
  });

  return {
    write(name, input, characters = 0) {
      if (broken) return Promise.reject(broken);
      if (waiting.length >= maxWaiting || waitingCharacters + characters > maxWaitingCharacters)
        return Promise.reject(unavailable(new Error('too many writes are waiting')));
      if (unsent.length === 0) setImmediate(send);
      unsent.push([name, input as never]);
      waitingCharacters += characters;
      return new Promise((resolve, reject) => waiting.push({ resolve, reject, characters }));
    },
    waiting: () => waiting.length,
    failures: () => ({ failedWrites, lastFailedWriteAt }),
    async close() {
      closing = true;
      broken = unavailable(new Error('the store is closed'));
      thread.postMessage(JSON.stringify(unsent) satisfies Request);
      unsent = [];
      thread.postMessage(null satisfies Request);
      await ended;
      if (lost) throw lost;
    },
  };
}
