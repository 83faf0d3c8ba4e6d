/** A connection pool with a bounded queue and a deadline for every job. */
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../core/limits.ts';
import { type OpenOptions, type PoolMeasures, type StoreMeasures, unavailable } from '../store.ts';
import type { Connection } from './connection.ts';
import {
  classOf,
  endsConnection,
  errorClasses,
  reasonOf,
  refusal,
  StandbyError,
  TimeoutError,
  translate,
  wasRefused,
  writeFailures,
} from './errors.ts';
import type { Sql } from './sql.ts';

export interface PoolOptions extends Pick<OpenOptions, 'onCommit' | 'onQuery'> {
  connect: (onClose: () => void) => Promise<Connection>;
  /** Maximum number of connections. */
  size: number;
  /** Maximum number of jobs that wait for a connection. */
  maxWaiting: number;
}

type Work<Result> = (sql: Sql) => Promise<Result>;

interface WorkOptions {
  /** The deadline. Default: `deadlineMs`. */
  withinMs?: number;
  /** Whether no valid key asks for it. All such work together uses a quarter of the connections at most. */
  stranger?: boolean;
}

export interface Pool {
  /** Runs work that changes nothing; if its connection is lost, it runs again. Rejects with ApiError `service_unavailable` at the deadline. */
  read<Result>(work: Work<Result>, options?: WorkOptions): Promise<Result>;
  /**
   * Runs one statement or transaction that changes data. It runs again only if the server reported that it had no effect. If the connection is
   * lost, the outcome is unknown, and the promise rejects with ApiError `service_unavailable`. `writes`: how many writes it commits.
   */
  write<Result>(work: Work<Result>, options?: WorkOptions & { writes?: number }): Promise<Result>;
  measure(): { pool: PoolMeasures } & Pick<StoreMeasures, 'failedWrites' | 'lastFailedWriteAt'>;
  close(): Promise<void>;
}

/** A request of the API uses the database at most twice, for its key and for its data, so it is answered within 5 s even if the database hangs. */
const deadlineMs = limits.statement;

/** Settings of each session, in milliseconds: what the server itself ends if this process cannot. */
export const sessionSettings = {
  lock_timeout: 2000,
  statement_timeout: deadlineMs + 200,
  idle_in_transaction_session_timeout: 5000,
};

interface Job {
  work: Work<unknown>;
  /** 0: it only reads, and may run again. */
  writes: number;
  stranger: boolean;
  /** Why the server refused it. It waits to run again. */
  refused?: unknown;
  begun: number;
  connection?: Connection | undefined;
  done: boolean;
  finish: (settle: () => void) => void;
  resolve: (result: never) => void;
  reject: (error: unknown) => void;
}

const reconnectEveryMs = 50;
const jitter = (ms: number) => ms * (0.5 + Math.random());

const countersOf = <Name extends string>(names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;

/** Opens no connection yet: each is opened when work waits for one. */
export function createPool({ connect, size, maxWaiting, onCommit, onQuery }: PoolOptions): Pool {
  const idle: Connection[] = [];
  const open = new Set<Connection>();
  const queues = { keys: [] as Job[], strangers: [] as Job[] };
  const maxStrangers = Math.ceil(size / 4);
  let strangers = 0;
  let unanswered = 0;
  let running = 0;
  let opening = false;
  let closing = false;
  let connectError: unknown;
  let drained: (() => void) | undefined;
  const errors = countersOf(errorClasses);
  const failedWrites = countersOf(writeFailures);
  let lastFailedWriteAt = 0;
  let abandoned = 0;
  let abandonedTotal = 0;

  function drop(connection: Connection): void {
    if (!open.delete(connection)) return;
    const index = idle.indexOf(connection);
    if (index >= 0) idle.splice(index, 1);
    connection.destroy();
    void openMore();
  }

  /** The server, or the network, has ended the connection. */
  function lose(connection: Connection): void {
    // Otherwise its job fails, which counts.
    if (idle.includes(connection)) errors.connection += 1;
    drop(connection);
  }

  const queueOf = ({ stranger }: Pick<Job, 'stranger'>) => (stranger ? queues.strangers : queues.keys);

  /** The queue whose first job may start next; undefined if there is none. One stranger may always work, whoever else waits. */
  function nextQueue(): Job[] | undefined {
    for (const queue of Object.values(queues)) while (queue[0]?.done) queue.shift();
    const { keys, strangers: others } = queues;
    const mayStart = others.length > 0 && strangers < maxStrangers;
    if (mayStart && (strangers === 0 || keys.length === 0)) return others;
    return keys.length > 0 ? keys : undefined;
  }

  function pump(): void {
    for (let queue = nextQueue(); queue && idle.length > 0; queue = nextQueue())
      void start(queue.shift() as Job, idle.pop() as Connection);
    void openMore();
  }

  /** Opens one connection at a time, so as not to flood a server that has just come back. */
  async function openMore(): Promise<void> {
    if (opening) return;
    opening = true;
    while (open.size < size && nextQueue()) {
      try {
        let connection: Connection | undefined;
        connection = await connect(() => connection && lose(connection));
        connectError = undefined;
        // The pool was closed meanwhile.
        if (closing && unanswered === 0) {
          connection.destroy();
          break;
        }
        open.add(connection);
        idle.push(connection);
        pump();
      } catch (error) {
        connectError = error;
        errors[classOf(error)] += 1;
        await sleep(jitter(reconnectEveryMs));
      }
    }
    opening = false;
  }

  async function start(job: Job, connection: Connection): Promise<void> {
    job.connection = connection;
    job.begun = performance.now();
    running += 1;
    if (job.stranger) strangers += 1;
    let failed: { error: unknown } | undefined;
    try {
      const result = await job.work(connection.sql);
      job.finish(() => {
        if (job.writes > 0) onCommit?.(job.writes);
        job.resolve(result as never);
      });
    } catch (error) {
      failed = { error };
    }
    // After its deadline: expire() has taken the connection. Only now is it known whether a commit waited for the standby.
    if (job.connection === undefined) {
      if (failed?.error instanceof StandbyError) errors.standby += 1;
      return;
    }
    release(job);
    if (failed) errors[classOf(failed.error)] += 1;
    if (failed && endsConnection(failed.error)) drop(connection);
    else if (open.has(connection)) idle.push(connection);
    if (failed) retryOrReject(job, failed.error);
    pump();
  }

  /** The job no longer uses its connection. */
  function release(job: Job): void {
    job.connection = undefined;
    running -= 1;
    if (job.stranger) strangers -= 1;
    onQuery?.(job.writes > 0 ? 'write' : 'read', performance.now() - job.begun);
  }

  /** Rejects with `answer`, because of `error`. */
  function fail(job: Job, error: unknown, answer: unknown): void {
    job.finish(() => {
      if (job.writes > 0) {
        failedWrites[reasonOf(error)] += job.writes;
        lastFailedWriteAt = Date.now();
      }
      job.reject(answer);
    });
  }

  function retryOrReject(job: Job, error: unknown): void {
    const lost = job.writes === 0 && endsConnection(error);
    if (!lost && !wasRefused(error)) {
      fail(job, error, translate(error));
      return;
    }
    job.refused = error;
    setTimeout(() => {
      queueOf(job).push(job);
      pump();
    }, jitter(10));
  }

  function expire(job: Job): void {
    const { connection } = job;
    const late = new TimeoutError(connection ? 'the database did not answer in time' : 'no connection is free');
    // A refused job runs again until now: its last attempt may have just begun, so the refusal tells more.
    const error = job.refused ?? (connection ? late : (connectError ?? late));
    fail(job, error, refusal(error));
    if (connection === undefined) return;
    release(job);
    errors.timeout += 1;
    abandoned += 1;
    abandonedTotal += 1;
    // It counts against `size` until then.
    void connection.abandon().then(() => {
      abandoned -= 1;
      drop(connection);
    });
  }

  function run<Result>(work: Work<Result>, writes: number, options: WorkOptions = {}): Promise<Result> {
    const { withinMs = deadlineMs, stranger = false } = options;
    if (closing) return Promise.reject(unavailable(new Error('the store is closed')));
    if (unanswered - running >= maxWaiting) {
      return Promise.reject(unavailable(new Error('too many requests are waiting for the database')));
    }
    return new Promise((resolve, reject) => {
      unanswered += 1;
      const job: Job = {
        ...{ work, writes, stranger, resolve, reject, done: false, begun: 0 },
        finish(settle) {
          if (job.done) return;
          job.done = true;
          clearTimeout(timer);
          unanswered -= 1;
          // While no connection is free, nothing else takes out of the queue what has passed its deadline.
          const queue = queueOf(job);
          while (queue[0]?.done) queue.shift();
          settle();
          if (unanswered === 0) drained?.();
        },
      };
      const timer = setTimeout(() => expire(job), withinMs);
      // A statement would be cancelled as soon as it is sent, and its outcome unknown.
      if (withinMs <= 0) return expire(job);
      queueOf(job).push(job);
      pump();
    });
  }

  return {
    read: (work, options) => run(work, 0, options),
    write: (work, { writes = 1, ...options } = {}) => run(work, writes, options),
    measure() {
      const busy = open.size - idle.length;
      const pool = { limit: size, busy, waiting: unanswered - running, abandoned, abandonedTotal, errors };
      return { pool, failedWrites, lastFailedWriteAt };
    },
    async close() {
      closing = true;
      if (unanswered > 0) await new Promise<void>((resolve) => (drained = resolve));
      for (const connection of [...open]) drop(connection);
    },
  };
}
