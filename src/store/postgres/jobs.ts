/** The jobs of a pool: their queues, and how each one is answered exactly once. */
import type { StoreMeasures } from '../../core/measures.ts';
import type { OpenOptions } from '../store.ts';
import { countersOf, reasonOf, writeFailures } from './errors.ts';
import type { PrimaryConnection } from './hosts.ts';
import type { Sql } from './sql.ts';

export type Work<Result> = (sql: Sql) => Promise<Result>;

export interface Job {
  work: Work<unknown>;
  /** 0: it only reads, and may run again. */
  writes: number;
  /** Whether it is for a request without a valid key. */
  stranger: boolean;
  /** Why its last attempt had no effect. It runs again. */
  refused: unknown;
  begun: number;
  /** The connection that it runs on. */
  connection: PrimaryConnection | undefined;
  /** Ends it at its deadline. */
  timer: NodeJS.Timeout | undefined;
  /** Whether it was answered. */
  done: boolean;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

interface JobQueue {
  push: (job: Job) => void;
  /** Whether a job could start. */
  isReady: () => boolean;
  /** The job that starts now; undefined if none may. */
  take: () => Job | undefined;
  /** Call it when a job that `take` returned no longer uses its connection. */
  release: (job: Job) => void;
  /** Removes done jobs from the front of this job's queue: while no connection is free, nothing else does. */
  forget: (job: Job) => void;
}

/** Strangers wait in a queue of their own, and have `maxStrangers` jobs running at most. */
function createQueue(maxStrangers: number): JobQueue {
  const keys: Job[] = [];
  const strangers: Job[] = [];
  let runningStrangers = 0;

  const queueOf = (job: Job) => (job.stranger ? strangers : keys);

  function dropDone(queue: Job[]): void {
    while (queue[0]?.done) queue.shift();
  }

  /** The queue whose first job may start next; undefined if there is none. One stranger may always work, even if keys wait. */
  function nextQueue(): Job[] | undefined {
    dropDone(keys);
    dropDone(strangers);
    const mayStart = strangers.length > 0 && runningStrangers < maxStrangers;
    if (mayStart && (runningStrangers === 0 || keys.length === 0)) return strangers;
    return keys.length > 0 ? keys : undefined;
  }

  return {
    push: (job) => void queueOf(job).push(job),
    isReady: () => nextQueue() !== undefined,
    take() {
      const job = nextQueue()?.shift();
      if (job?.stranger) runningStrangers += 1;
      return job;
    },
    release(job) {
      if (job.stranger) runningStrangers -= 1;
    },
    forget: (job) => dropDone(queueOf(job)),
  };
}

export interface Jobs {
  queue: Pick<JobQueue, 'push' | 'isReady' | 'take'>;
  /** Call it once for each new job. */
  accept: () => void;
  /** The job that `take` returned begins on a connection. */
  begin: (job: Job, connection: PrimaryConnection) => void;
  /** The job no longer uses its connection. */
  release: (job: Job) => void;
  /** These do nothing if the job was answered before. */
  resolve: (job: Job, result: unknown) => void;
  /** Rejects with `answer`, because of `error`. */
  reject: (job: Job, error: unknown, answer: unknown) => void;
  /** Accepted jobs that do not run now. */
  waiting: () => number;
  failures: () => Pick<StoreMeasures, 'failedWrites' | 'lastFailedWriteAt'>;
  /** Resolves when every job is answered. Accept none after that call. */
  drain: () => Promise<void>;
}

export function createJobs(
  maxStrangers: number,
  { onCommit, onQuery }: Pick<OpenOptions, 'onCommit' | 'onQuery'>,
): Jobs {
  const queue = createQueue(maxStrangers);
  const failedWrites = countersOf(writeFailures);
  let lastFailedWriteAt = 0;
  let unanswered = 0;
  let running = 0;
  let drained: (() => void) | undefined;

  /** Returns false if the job was answered before. */
  function finish(job: Job): boolean {
    if (job.done) return false;
    job.done = true;
    clearTimeout(job.timer);
    unanswered -= 1;
    queue.forget(job);
    return true;
  }

  function endIfDrained(): void {
    if (unanswered === 0) drained?.();
  }

  return {
    queue,
    accept() {
      unanswered += 1;
    },
    begin(job, connection) {
      job.connection = connection;
      job.begun = performance.now();
      running += 1;
    },
    release(job) {
      job.connection = undefined;
      running -= 1;
      queue.release(job);
      onQuery?.(job.writes > 0 ? 'write' : 'read', performance.now() - job.begun);
    },
    resolve(job, result) {
      if (!finish(job)) return;
      if (job.writes > 0) onCommit?.(job.writes);
      job.resolve(result);
      endIfDrained();
    },
    reject(job, error, answer) {
      if (!finish(job)) return;
      if (job.writes > 0) {
        failedWrites[reasonOf(error)] += job.writes;
        lastFailedWriteAt = Date.now();
      }
      job.reject(answer);
      endIfDrained();
    },
    waiting: () => unanswered - running,
    failures: () => ({ failedWrites, lastFailedWriteAt }),
    async drain() {
      if (unanswered > 0) await new Promise<void>((resolve) => (drained = resolve));
    },
  };
}
