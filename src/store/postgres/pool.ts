/** The driver's pool, with what it does not know: a deadline for each job, commits that wait for a standby, and which errors allow another attempt. */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { limits } from '../../core/limits.ts';
import { type StoreMetrics, unavailable } from '../store.ts';
import { PoolClient, refuseStandby, sessionSettings } from './connection.ts';
import {
  createCounters,
  endsConnection,
  outcomeOf,
  reasonOf,
  StandbyError,
  TimeoutError,
  translate,
} from './errors.ts';
import { type Connection, createConnection } from './sql.ts';
import type { Target } from './url.ts';

type Work<Result> = (connection: Connection) => Promise<Result>;

export type Pool = ReturnType<typeof createPool>;
export type Pools = ReturnType<typeof createPools>;

/** Counts since the start, of all pools. */
const createCounts = () => ({ errors: createCounters(), failedWrites: createCounters() });

/** Opens no connection yet: each is opened when work waits for one. With a single connection, there is one pool. */
export function createPools(
  config: pg.ClientConfig,
  { connections, prepare }: Pick<Target, 'connections' | 'prepare'>,
  metrics?: StoreMetrics,
) {
  const counts = createCounts();
  const create = (size: number) => createPool(config, size, prepare, counts, metrics);
  const few = Math.ceil(connections / 4);
  const keyed = create(Math.max(1, connections - few));
  const strangers = few < connections ? create(few) : keyed;
  const all = new Set([keyed, strangers]);
  return {
    /** For the server itself, and for requests with a key that was valid recently. */
    keyed,
    /** For strangers, a quarter of the connections: they cannot keep out requests with a key. */
    strangers,
    measure() {
      const { errors, failedWrites } = counts;
      const sum = { limit: 0, busy: 0, waiting: 0, abandoned: 0 };
      for (const found of [...all].map((pool) => pool.measure()))
        for (const name of ['limit', 'busy', 'waiting', 'abandoned'] as const) sum[name] += found[name];
      return { pool: { ...sum, errors }, failedWrites };
    },
    close: async () => void (await Promise.all([...all].map((pool) => pool.close()))),
  };
}

/** If the database hangs, a request is answered within 5 s: its key and its own job take one deadline each at most. */
const deadlineMs = limits.statementMs;

/** Shorter than the time after which firewalls forget an idle connection. */
const idleTimeoutMs = 300_000;

const retryAfterMs = 10;
const reconnectAfterMs = 50;

/** After a failed connect, a pool that has other connections waits this long before it tries again. */
const askAgainMs = 1000;

/** Longer than the server lets any statement run. One that is still unanswered waits for the standby, or was lost, for example with its machine. */
const letGoAfterMs = sessionSettings.statement_timeout + 500;

const isInTransaction = (client: pg.PoolClient) => client.getTransactionStatus() !== 'I';
const streamOf = (client: pg.PoolClient) => client.connection.stream;

/** A random time around `ms`, so that servers do not all try again at once. */
const jitter = (ms: number) => ms * (0.5 + Math.random());

/** https://www.postgresql.org/docs/18/monitoring-stats.html#WAIT-EVENT-IPC-TABLE */
const standbyWaitEvent = 'SyncRep';

const noneFree = 'no connection is free';

interface Job {
  /** How many writes it commits; 0: it only reads. */
  writes: number;
  /** The connection that it runs on. */
  client: pg.PoolClient | undefined;
  /** Whether its deadline has passed; its caller has got an error then. */
  isLate: boolean;
  /** The error of its last attempt, which had no effect: it runs again. */
  refused: unknown;
}

const isWrite = ({ writes }: Job) => writes > 0;
const isAbandoned = ({ client, isLate }: Job) => isLate && client !== undefined;
const isHeldWrite = (job: Job) => isAbandoned(job) && isWrite(job);

type Attempt<Result> = { outcome: 'done'; result: Result } | { outcome: ReturnType<typeof outcomeOf>; error: unknown };

function createPool(
  config: pg.ClientConfig,
  size: number,
  prepare: boolean,
  counts: ReturnType<typeof createCounts>,
  metrics?: StoreMetrics,
) {
  const pool = new pg.Pool({
    ...config,
    // Never reached by jobs, which have a queue of their own: it leaves one to `alone`, or to a read beside a write that was given up.
    max: size + 1,
    idleTimeoutMillis: idleTimeoutMs,
    allowExitOnIdle: true,
    Client: PoolClient,
    onConnect: refuseStandby,
  });
  const { errors } = counts;
  /** Of each connection that was not lost. */
  const connectionOf = new WeakMap<pg.PoolClient, Connection>();
  /** Jobs that have a connection or open one, also those given up at their deadline, which the server has not let go yet. */
  const running = new Set<Job>();
  /** Jobs that wait for their turn, the oldest first, with what ends the wait: whether they may run. */
  const waiting = new Map<Job, (mayRun: boolean) => void>();
  /** Writes that wait for the standby leave connections to the reads. */
  const maxWrites = Math.ceil(size / 2);
  /** Why and when the last connection could not be opened; undefined if it could. */
  let unreachable: { reason: unknown; at: number } | undefined;
  /** Jobs whose caller waits. */
  let accepted = 0;
  let closed: Promise<void> | undefined;

  pool.on('connect', (client) => {
    unreachable = undefined;
    connectionOf.set(client, createConnection(client, prepare));
    const stream = streamOf(client);
    // At the server's FIN, not some turns later: a statement sent in between would have an unknown outcome. With an error, the pool drops it at once.
    stream.once('end', () => stream.destroy(new Error('Connection terminated by the server')));
    startWaiting();
  });
  pool.on('error', (error, client) => {
    // An idle connection was lost. One that was not yet open, or whose loss a job has met, rejects.
    if (connectionOf.has(client)) errors[reasonOf(error)] += 1;
  });

  const countOf = (is: (job: Job) => boolean) => [...running].filter(is).length;

  /**
   * How many jobs may run. While no further connection can be opened, as many as there are connections, and now and then one more, which tries; at least
   * one: a server that has just come back is not flooded. Reads have a connection beside those of writes that were given up, also if the size is 1.
   */
  function maxRunning(): number {
    const least = countOf(isHeldWrite) + 1;
    if (!unreachable) return Math.max(size, least);
    const mayTry = performance.now() >= unreachable.at + askAgainMs;
    return Math.max(Math.min(size, pool.totalCount + (mayTry ? 1 : 0)), least);
  }

  function startWaiting(): void {
    const most = maxRunning();
    let writing = countOf(isWrite);
    for (const [job, end] of waiting) {
      if (running.size >= most) return;
      if (isWrite(job) && writing >= maxWrites) continue;
      if (isWrite(job)) writing += 1;
      waiting.delete(job);
      running.add(job);
      end(true);
    }
  }

  /** Resolves to whether the job may run; false at its deadline. */
  const turn = (job: Job) =>
    new Promise<boolean>((resolve) => {
      if (job.isLate) return resolve(false);
      waiting.set(job, resolve);
      startWaiting();
    });

  /** Runs `work` on a connection, which may have to be opened. Never rejects. */
  async function attempt<Result>(job: Job, work: Work<Result>): Promise<Attempt<Result>> {
    let client: pg.PoolClient;
    try {
      client = await pool.connect();
    } catch (error) {
      errors[reasonOf(error)] += 1;
      unreachable = { reason: error, at: performance.now() };
      // Until then, no other takes its turn.
      await sleep(jitter(reconnectAfterMs));
      return { outcome: 'refused', error };
    }
    if (job.isLate) {
      client.release();
      return { outcome: 'failed', error: new TimeoutError(noneFree) };
    }
    job.client = client;
    const begun = performance.now();
    let isUnusable = false;
    try {
      return { outcome: 'done', result: await work(connectionOf.get(client) as Connection) };
    } catch (error) {
      isUnusable = endsConnection(error);
      if (!job.isLate || error instanceof StandbyError) errors[reasonOf(error)] += 1;
      return { outcome: outcomeOf(error), error };
    } finally {
      metrics?.query(isWrite(job) ? 'write' : 'read', Math.min(performance.now() - begun, deadlineMs));
      if (isUnusable) connectionOf.delete(client);
      job.client = undefined;
      client.release(isUnusable || job.isLate || isInTransaction(client));
      // By then, all connections that were lost with it are known.
      if (isUnusable) await nextTurn();
    }
  }

  /** Attempts a job until it is done: again after each attempt that had no effect, and once more if a read was lost. */
  async function retry<Result>(job: Job, work: Work<Result>): Promise<Result> {
    for (let mayRepeat = job.writes === 0; ; await sleep(jitter(retryAfterMs))) {
      if (!(await turn(job))) throw new TimeoutError(noneFree);
      const attempted = await attempt(job, work);
      running.delete(job);
      startWaiting();
      if (attempted.outcome === 'done') return attempted.result;
      const { outcome, error } = attempted;
      if (job.isLate || outcome === 'failed' || (outcome === 'lost' && !mayRepeat)) throw error;
      if (outcome === 'lost') mayRepeat = false;
      job.refused = error;
    }
  }

  /** Whether a session of this role has waited for the standby for as long as what was given up. Until the database says no, it is assumed. */
  const waitsForStandby = () =>
    run(
      (connection) => connection`
        SELECT FROM pg_stat_activity WHERE wait_event = ${standbyWaitEvent}
        AND query_start < clock_timestamp() - ${sessionSettings.statement_timeout} * interval '1 ms' LIMIT 1`,
      0,
    ).then(
      (rows) => rows.length > 0,
      () => true,
    );

  /**
   * Ends the connection of a job that was given up, when the server has let it go, at `settled`: until then, it counts against the pool. No cancel request:
   * one that meets a commit that waits for its standby ends the wait, not the commit, and shows what a failover loses
   * (https://www.postgresql.org/docs/18/warm-standby.html#SYNCHRONOUS-REPLICATION-HA).
   */
  async function abandon(client: pg.PoolClient, { writes }: Job, settled: Promise<unknown>): Promise<void> {
    errors.timeout += 1;
    connectionOf.get(client)?.stop();
    startWaiting();
    let ended = false;
    const end = settled.catch(() => undefined).then(() => (ended = true));
    do await Promise.race([end, sleep(letGoAfterMs, undefined, { ref: false })]);
    while (!ended && writes > 0 && (await waitsForStandby()));
    if (!ended) streamOf(client).destroy();
  }

  /** Rejects if `settled` does not resolve in time. */
  async function withDeadline<Result>(job: Job, withinMs: number, settled: Promise<Result>): Promise<Result> {
    const { promise: expired, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      job.isLate = true;
      const { client, refused } = job;
      const reason = client
        ? new TimeoutError('the database did not answer in time')
        : (unreachable?.reason ?? new TimeoutError(noneFree));
      // Why the attempt before was refused says more than the time-out of the last one.
      reject(refused ?? reason);
      if (client) void abandon(client, job, settled);
      waiting.get(job)?.(false);
      waiting.delete(job);
    }, withinMs);
    try {
      return await Promise.race([settled, expired]);
    } finally {
      clearTimeout(timer);
    }
  }

  async function run<Result>(work: Work<Result>, writes: number, withinMs = deadlineMs): Promise<Result> {
    if (closed) throw unavailable(new Error('the store is closed'));
    const job: Job = { writes, client: undefined, isLate: withinMs <= 0, refused: undefined };
    accepted += 1;
    try {
      // Without time left, a statement would be given up as soon as it is sent, and its outcome unknown.
      if (job.isLate) throw new TimeoutError(noneFree);
      const result = await withDeadline(job, withinMs, retry(job, work));
      if (writes > 0) metrics?.commit(writes);
      return result;
    } catch (error) {
      const failure = translate(error, job.isLate);
      if (writes > 0) {
        counts.failedWrites[reasonOf(error)] += writes;
        metrics?.failed(failure, writes);
      }
      throw failure;
    } finally {
      accepted -= 1;
    }
  }

  return {
    /** Runs work that changes nothing; if its connection is lost, it runs once more. Rejects with ApiError `service_unavailable` at the deadline. */
    read: <Result>(work: Work<Result>, withinMs?: number) => run(work, 0, withinMs),
    /**
     * Runs one statement or transaction that changes data. It runs again only if the server reported that it had no effect. If the connection is
     * lost, the outcome is unknown, and the promise rejects with ApiError `service_unavailable`. `writes`: how many writes it commits.
     */
    write: <Result>(work: Work<Result>, { writes = 1, withinMs }: { writes?: number; withinMs?: number } = {}) =>
      run(work, writes, withinMs),
    /**
     * Runs work that may take hours, on a connection of its own, once: only the time-outs of the session hold, unless the work lifts them. Rejects
     * with the error as it is.
     */
    async alone<Result>(work: Work<Result>): Promise<Result> {
      const client = await pool.connect();
      try {
        return await work(connectionOf.get(client) as Connection);
      } finally {
        client.release(isInTransaction(client));
      }
    },
    measure: () => ({
      limit: size,
      busy: running.size,
      waiting: waiting.size,
      abandoned: countOf(isAbandoned),
    }),
    /** Resolves when every job is answered; the connections close then. A commit that waits for its standby goes on waiting. */
    close() {
      closed ??= (async () => {
        while (accepted > 0) await sleep(1);
        for (const { client } of running) if (client) streamOf(client).destroy();
        await pool.end();
      })();
      return closed;
    },
  };
}
