/** A bounded number of connections, a bounded queue before them, and a deadline for everything that is asked of them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../store.ts';
import type { Connection, Sql } from './connection.ts';
import { endsConnection, translate, wasRefused } from './errors.ts';

export interface PoolOptions {
  connect: (onClose: () => void) => Promise<Connection>;
  /** Connections at most. */
  size: number;
  /** Works that wait for a connection at most. */
  maxWaiting: number;
}

type Work<Result> = (sql: Sql) => Promise<Result>;

export interface Pool {
  /** Work that changes nothing: done again where its connection is lost. */
  read<Result>(work: Work<Result>, deadlineMs?: number): Promise<Result>;
  /**
   * Work that changes something, in one statement: done again only where the server has said that it did not do it. A connection lost
   * meanwhile leaves the outcome unknown.
   */
  write<Result>(work: Work<Result>, deadlineMs?: number): Promise<Result>;
  close(): Promise<void>;
}

/** A request asks at most twice, for its key and for what it came for: it is answered within 5 s, whatever becomes of the database. */
export const deadlineMs = 2300;

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
  let opening = false;
  let closing = false;
  let obstacle: unknown = new Error('no connection is free');
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

  /** One at a time: a server that comes back must not meet a storm. */
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
        obstacle = error;
        await sleep(jitter(reconnectEveryMs));
      }
    }
    opening = false;
  }

  async function start(job: Job, connection: Connection): Promise<void> {
    job.connection = connection;
    let failed: { error: unknown } | undefined;
    try {
      const result = await job.work(connection.sql);
      job.finish(() => job.resolve(result as never));
    } catch (error) {
      failed = { error };
    }
    job.connection = undefined;
    if (failed && endsConnection(failed.error)) drop(connection);
    else if (open.has(connection)) idle.push(connection);
    if (failed) await judge(job, failed.error);
    pump();
  }

  async function judge(job: Job, error: unknown): Promise<void> {
    const lost = job.repeatable && endsConnection(error);
    if (!lost && !wasRefused(error)) return job.finish(() => job.reject(translate(error)));
    setTimeout(() => {
      queue.push(job);
      pump();
    }, jitter(10));
  }

  function expire(job: Job): void {
    const { connection } = job;
    job.finish(() => job.reject(unavailable(connection ? new Error('the database did not answer in time') : obstacle)));
    if (connection) drop(connection);
  }

  function run<Result>(work: Work<Result>, repeatable: boolean, withinMs: number): Promise<Result> {
    if (closing) return Promise.reject(unavailable(new Error('the store is closed')));
    if (unanswered - open.size + idle.length >= maxWaiting) {
      return Promise.reject(unavailable(new Error('too many requests wait for the database')));
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
    async close() {
      closing = true;
      if (unanswered > 0) await new Promise<void>((resolve) => (drained = resolve));
      for (const connection of [...open]) drop(connection);
    },
  };
}
