/** A connection pool with a bounded queue and a deadline for every job. */
import { limits } from '../../core/limits.ts';
import type { PoolMeasures, StoreMeasures } from '../../core/measures.ts';
import { type OpenOptions, unavailable } from '../store.ts';
import { createConnections, jitter } from './connections.ts';
import {
  classOf,
  countersOf,
  endsConnection,
  errorClasses,
  refusal,
  StandbyError,
  TimeoutError,
  translateForServer,
  wasRefused,
} from './errors.ts';
import type { PrimaryConnection } from './hosts.ts';
import { createJobs, type Job, type Work } from './jobs.ts';
import type { Lease } from './lease.ts';

export interface PoolOptions extends Pick<OpenOptions, 'onCommit' | 'onQuery'> {
  connect: (onClose: () => void) => Promise<PrimaryConnection>;
  /** What reads, and the acknowledgement of writes, wait for. */
  lease: Lease;
  /** Maximum number of connections. */
  size: number;
  /** Maximum number of jobs that wait for a connection. */
  maxWaiting: number;
}

interface WorkOptions {
  /** The deadline. Default: `deadlineMs`. */
  withinMs?: number;
  /** Whether it is for a request without a valid key. All such work together uses a quarter of the connections at most. */
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
  /** Drops the connections to primaries that one with this timeline has replaced. */
  dropOlder(timeline: number): void;
  close(): Promise<void>;
}

/**
 * A request with an API key uses the database twice at most, for its key and for its data: it is answered within 5 s even if the database
 * hangs. A sign-in uses it four times.
 */
const deadlineMs = limits.statement;

/** Time-outs of each session, in milliseconds: PostgreSQL ends what this process can no longer end. */
export const sessionSettings = {
  lock_timeout: 2000,
  statement_timeout: deadlineMs + 200,
  idle_in_transaction_session_timeout: 5000,
};

const retryAfterMs = 10;

/** Opens no connection yet: each is opened when work waits for one. */
export function createPool({ connect, lease, size, maxWaiting, onCommit, onQuery }: PoolOptions): Pool {
  const jobs = createJobs(Math.ceil(size / 4), { onCommit, onQuery });
  const errors = countersOf(errorClasses);
  const connections = createConnections({ connect, size, errors, isNeeded: jobs.queue.isReady, onOpen: pump });
  let abandoned = 0;
  let abandonedTotal = 0;
  let closing = false;

  /** Starts each job that can start now. */
  function pump(): void {
    for (let connection = connections.take(); connection; connection = connections.take()) {
      const job = jobs.queue.take();
      if (!job) {
        connections.giveBack(connection);
        break;
      }
      void start(job, connection);
    }
    void connections.openMore();
  }

  async function start(job: Job, connection: PrimaryConnection): Promise<void> {
    jobs.begin(job, connection);
    let failed: { error: unknown } | undefined;
    try {
      const result = await job.work(connection.sql);
      if (job.writes > 0) await lease.acknowledgeable();
      jobs.resolve(job, result);
    } catch (error) {
      failed = { error };
    }
    // expire() has taken the connection at the deadline. The outcome counts all the same if the commit did not wait for the standby.
    if (job.connection === undefined) {
      if (failed?.error instanceof StandbyError) errors.standby += 1;
      return;
    }
    jobs.release(job);
    if (failed) errors[classOf(failed.error)] += 1;
    if (failed && endsConnection(failed.error)) connections.drop(connection);
    else connections.giveBack(connection);
    if (failed) retryOrReject(job, failed.error);
    pump();
  }

  function retryOrReject(job: Job, error: unknown): void {
    const lost = job.writes === 0 && endsConnection(error);
    if (!lost && !wasRefused(error)) {
      jobs.reject(job, error, translateForServer(error));
      return;
    }
    job.refused = error;
    setTimeout(enqueue, jitter(retryAfterMs), job);
  }

  /** Rejects a job at its deadline, and ends what it still runs. */
  function expire(job: Job): void {
    const { connection } = job;
    const late = new TimeoutError(connection ? 'the database did not answer in time' : 'no connection is free');
    // The last attempt may have just begun: why the one before had no effect says more than its time-out.
    const error = job.refused ?? (connection ? late : (connections.lastError() ?? late));
    jobs.reject(job, error, refusal(error));
    if (connection === undefined) return;
    jobs.release(job);
    errors.timeout += 1;
    abandoned += 1;
    abandonedTotal += 1;
    // It counts against `size` until the server has let it go.
    void connection.abandon().then(() => {
      abandoned -= 1;
      connections.drop(connection);
    });
  }

  function enqueue(job: Job): void {
    jobs.queue.push(job);
    pump();
  }

  function run<Result>(work: Work<Result>, writes: number, options: WorkOptions = {}): Promise<Result> {
    const { withinMs = deadlineMs, stranger = false } = options;
    if (closing) return Promise.reject(unavailable(new Error('the store is closed')));
    if (jobs.waiting() >= maxWaiting)
      return Promise.reject(unavailable(new Error('too many requests are waiting for the database')));
    return new Promise((resolve, reject) => {
      const job: Job = {
        ...{ work, writes, stranger, resolve, reject, refused: undefined, begun: 0, done: false },
        ...{ connection: undefined, timer: undefined },
      };
      jobs.accept();
      // A statement would be cancelled as soon as it is sent, and its outcome unknown.
      if (withinMs <= 0) return expire(job);
      job.timer = setTimeout(expire, withinMs, job);
      if (writes > 0 || lease.holds()) enqueue(job);
      else void lease.renewed().then(() => enqueue(job));
    });
  }

  return {
    read: (work, options) => run(work, 0, options),
    write: (work, { writes = 1, ...options } = {}) => run(work, writes, options),
    measure() {
      const [busy, waiting] = [connections.busy(), jobs.waiting()];
      return { pool: { limit: size, busy, waiting, abandoned, abandonedTotal, errors }, ...jobs.failures() };
    },
    dropOlder: connections.dropOlder,
    async close() {
      closing = true;
      await jobs.drain();
      connections.close();
    },
  };
}
