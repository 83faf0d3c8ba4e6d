/** The main thread's end of the writer: collects a turn's writes, bounds what waits, and hands back what became of each. */
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
   * `input` and the output are JSON. Resolves after the commit, and so the fsync, that holds the write. A rejected write may still be on disk where its fsync failed.
   * `characters`: the length of the texts that a client made as long as it likes.
   */
  write<Name extends CommandName>(name: Name, input: Input<Name>, characters?: number): Promise<Output<Name>>;
  /** Writes that are not answered yet. */
  waiting(): number;
  /** Resolves when all that was accepted is committed and the thread is gone; rejects where the last fsync failed. */
  close(): Promise<void>;
}

/** Beyond so many unanswered writes, or so much text in them, memory and waiting would grow without end: more are refused with 503. */
const maxWaiting = 10_000;
/** 64 MiB at most, as V8 keeps a character in one or two bytes. */
const maxWaitingCharacters = 32 * 1024 * 1024;

/** For what lives as short as a write does. V8 would let it grow to 96 MB, which nothing is the quicker for. */
const maxYoungGenerationSizeMb = 12;

/**
 * After a failed fsync nobody knows what of the file is on disk, and a second fsync would not tell (https://sqlite.org/rescode.html,
 * SQLITE_IOERR_FSYNC; PostgreSQL's fsync errata of 2018): this process must not acknowledge anything more.
 */
const fatal = /^SQLITE_IOERR_(DIR_)?FSYNC$/;

/** Starts the writer's thread on the store in `file`. */
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

  /** What is unsent goes as one message, once the thread has answered the one before: while it waits for a disk, a batch grows here. */
  function send(): void {
    if (unsent.length === 0 || unsent.length < waiting.length) return;
    thread.postMessage(JSON.stringify(unsent) satisfies Request);
    unsent = [];
  }

  /** Two turns later: clients that were just answered ask again meanwhile, and share the next commit. */
  function sendSoon(): void {
    setImmediate(() => setImmediate(send));
  }

  function giveUp(cause: Error): void {
    broken = unavailable(cause);
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
    for (const { reject } of answered) reject(failure);
    if (fatal.test(String(reply.error.code))) {
      lost = cause;
      return giveUp(cause);
    }
    // What a checkpoint could not move stays in the log, and the next one begins anew.
    if (reply.count === 0) onCheckpointFailure?.(cause);
    sendSoon();
  });
  let crash = new Error('the writing thread ended');
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
