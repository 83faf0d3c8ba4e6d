/** A connection pool with a bounded queue and a deadline for every job. */
import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../store.ts';
import type { Connection } from './connection.ts';
import { endsConnection, translate, wasRefused } from './errors.ts';
import type { Sql } from './sql.ts';

export interface PoolOptions {
  connect: (onClose: () => void) => Promise<Connection>;
  /** Maximum number of connections. */
  size: number;
  /** Maximum number of jobs that wait for a connection. */
  maxWaiting: number;
}

type Work<Result> = (sql: Sql) => Promise<Result>;

export interface Pool {
  /** Runs work that changes nothing; if its connection is lost, it runs again. Rejects with ApiError `service_unavailable` at the deadline. */
  read<Result>(work: Work<Result>, deadlineMs?: number): Promise<Result>;
  /**
   * Runs one statement that changes data. It runs again only if the server reported that it had no effect. If the connection is lost, the
   * outcome is unknown, and the promise rejects with ApiError `service_unavailable`.
   */
  write<Result>(work: Work<Result>, deadlineMs?: number): Promise<Result>;
  /** Connections that run a job, or that the server has not let go yet, and jobs that wait for a connection. */
  measure(): { limit: number; busy: number; waiting: number };
  close(): Promise<void>;
}

/** A request uses the database at most twice, for its API key and for its data, so it gets a response within 5 s even if the database hangs. */
export const deadlineMs = 2300;

/** Settings of each session, in milliseconds: what the server itself ends if this process cannot. */
export const sessionSettings = {
  lock_timeout: 2000,
  statement_timeout: deadlineMs + 200,
  idle_in_transaction_session_timeout: 5000,
};

interface Job {
  work: Work<unknown>;
  repeatable: boolean;
  connection?: Connection | undefined;
  done: boolean;
  finish: (settle: () => void) => void;
  resolve: (result: never) => void;
  reject: (error: unknown) => void;
}

const reconnectEveryMs = 50;
const jitter = (ms: number) => ms * (0.5 + Math.random());

export function createPool({ connect, size, maxWaiting }: PoolOptions): Pool {
  const idle: Connection[] = [];
  const open = new Set<Connection>();
  const queue: Job[] = [];
  let unanswered = 0;
  let running = 0;
  let opening = false;
  let closing = false;
  let connectError: unknown = new Error('no connection is free');
  let drained: (() => void) | undefined;

  function drop(connection: Connection): void {
    if (!open.delete(connection)) return;
    const index = idle.indexOf(connection);
    if (index >= 0) idle.splice(index, 1);
    connection.destroy();
    void openMore();
  }

  function pump(): void {
    while (queue.length > 0 && idle.length > 0) {
      const job = queue.shift() as Job;
      if (!job.done) void start(job, idle.pop() as Connection);
    }
    void openMore();
  }

  /** Opens one connection at a time, so as not to flood a server that has just come back. */
  async function openMore(): Promise<void> {
    if (opening) return;
    opening = true;
    while (open.size < size && queue.some(({ done }) => !done)) {
      try {
        let connection: Connection | undefined;
        connection = await connect(() => connection && drop(connection));
        open.add(connection);
        idle.push(connection);
        pump();
      } catch (error) {
        connectError = error;
        await sleep(jitter(reconnectEveryMs));
      }
    }
    opening = false;
  }

  async function start(job: Job, connection: Connection): Promise<void> {
    job.connection = connection;
    running += 1;
    let failed: { error: unknown } | undefined;
    try {
      const result = await job.work(connection.sql);
      job.finish(() => job.resolve(result as never));
    } catch (error) {
      failed = { error };
    }
    // After its deadline: expire() has taken the connection.
    if (job.connection === undefined) return;
    job.connection = undefined;
    running -= 1;
    if (failed && endsConnection(failed.error)) drop(connection);
    else if (open.has(connection)) idle.push(connection);
    if (failed) await retryOrReject(job, failed.error);
    pump();
  }

  async function retryOrReject(job: Job, error: unknown): Promise<void> {
    const lost = job.repeatable && endsConnection(error);
    if (!lost && !wasRefused(error)) return job.finish(() => job.reject(translate(error)));
    setTimeout(() => {
      queue.push(job);
      pump();
    }, jitter(10));
  }

  function expire(job: Job): void {
    const { connection } = job;
    job.connection = undefined;
    job.finish(() =>
      job.reject(unavailable(connection ? new Error('the database did not answer in time') : connectError)),
    );
    if (connection === undefined) return;
    running -= 1;
    // It counts against `size` until then.
    void connection.abandon().then(() => drop(connection));
  }

  function run<Result>(work: Work<Result>, repeatable: boolean, withinMs: number): Promise<Result> {
    if (closing) return Promise.reject(unavailable(new Error('the store is closed')));
    if (unanswered - running >= maxWaiting) {
      return Promise.reject(unavailable(new Error('too many requests are waiting for the database')));
    }
    return new Promise((resolve, reject) => {
      unanswered += 1;
      const job: Job = {
        ...{ work, repeatable, resolve, reject, done: false },
        finish(settle) {
          if (job.done) return;
          job.done = true;
          clearTimeout(timer);
          unanswered -= 1;
          settle();
          if (unanswered === 0) drained?.();
        },
      };
      const timer = setTimeout(() => expire(job), withinMs);
      queue.push(job);
      pump();
    });
  }

  return {
    read: (work, withinMs = deadlineMs) => run(work, true, withinMs),
    write: (work, withinMs = deadlineMs) => run(work, false, withinMs),
    measure: () => ({ limit: size, busy: open.size - idle.length, waiting: unanswered - running }),
    async close() {
      closing = true;
      if (unanswered > 0) await new Promise<void>((resolve) => (drained = resolve));
      for (const connection of [...open]) drop(connection);
    },
  };
}
