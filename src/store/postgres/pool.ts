/** The driver's pool, with what it does not know: a deadline for each job, commits that wait for a standby, and which errors allow another attempt. */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { limits } from '../../core/limits.ts';
import { type StoreMetrics, unavailable } from '../store.ts';
import { connectTimeoutMs, PoolClient, refuseStandby, sessionSettings } from './connection.ts';
import {
  createCounters,
  endsConnection,
  hasNoMore,
  reasonOf,
  StandbyError,
  TimeoutError,
  translate,
  wasRefused,
} from './errors.ts';
import { type Connection, createConnection } from './sql.ts';
import type { Target } from './url.ts';

type Work<Result> = (connection: Connection) => Promise<Result>;

export type Pool = ReturnType<typeof createPool>;
export type Pools = ReturnType<typeof createPools>;

/** Counts since the start, of all pools. */
function createCounts() {
  return { errors: createCounters(), failedWrites: createCounters() };
}

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
      const each = [...all].map((pool) => pool.measure());
      const sum = (name: keyof (typeof each)[number]) => each.reduce((total, found) => total + found[name], 0);
      const gauges = { limit: sum('limit'), busy: sum('busy'), waiting: sum('waiting'), abandoned: sum('abandoned') };
      return { pool: { ...gauges, errors }, failedWrites };
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
const ignore = () => undefined;

interface Job {
  /** How many writes it commits; 0: it only reads. */
  writes: number;
  /** The connection that it runs on. */
  client: pg.PoolClient | undefined;
  /** Whether its deadline has passed; its caller has got an error then. */
  late: boolean;
  /** The error of its last attempt, which had no effect: it runs again. */
  refused: unknown;
}

function createPool(
  config: pg.ClientConfig,
  size: number,
  prepare: boolean,
  counts: ReturnType<typeof createCounts>,
  metrics?: StoreMetrics,
) {
  const pool = new pg.Pool({
    ...config,
    max: size,
    connectionTimeoutMillis: deadlineMs,
    idleTimeoutMillis: idleTimeoutMs,
    allowExitOnIdle: true,
    Client: PoolClient,
    onConnect: refuseStandby,
  });
  const connectionOf = new WeakMap<pg.PoolClient, Connection>();
  /** Connections given up at a deadline, which the server has not let go yet. */
  const abandoned = new Set<pg.PoolClient>();
  /** Writes that wait for the standby leave connections to the reads. */
  const maxWrites = Math.ceil(size / 2);
  /** Writes under way, also those that were given up. */
  let writing = 0;
  /** Writes that were given up, and hold their connections. */
  let held = 0;
  /** Writes that wait until fewer are under way. */
  let queued = 0;
  /** While the server opens no more connections than there are. */
  let limited: NodeJS.Timeout | undefined;
  /** Resolves when another write may begin, or the deadline of one that waits has passed. */
  let changed = Promise.withResolvers<void>();
  const { errors } = counts;
  /** Why the last connection could not be opened; undefined if it could. */
  let unreachable: unknown;
  let reconnecting: Promise<void> | undefined;
  /** Resolves at the end of the turn in which a connection was lost: by then, all lost connections to the server are known. */
  let losing: Promise<void> | undefined;
  let running = 0;
  /** Connections that were opened and not yet removed. */
  let open = 0;
  /** When work last succeeded on one of them. */
  let workedAt = Number.NEGATIVE_INFINITY;
  let closed: Promise<void> | undefined;

  pool.on('remove', () => {
    open -= 1;
  });
  pool.on('connect', (client) => {
    open += 1;
    connectionOf.set(client, createConnection(client, prepare));
    const stream = streamOf(client);
    // At the server's FIN, not some turns later: a statement sent in between would have an unknown outcome. With an error, the pool drops it at once.
    stream.once('end', () => stream.destroy(new Error('Connection terminated by the server')));
  });
  pool.on('error', (error, client) => {
    // An idle connection was lost. One that was not yet open, or whose loss a job has met, rejects.
    if (connectionOf.has(client)) errors[reasonOf(error)] += 1;
  });

  const wakeWrites = () => {
    changed.resolve();
    changed = Promise.withResolvers();
  };

  /** Reads have a connection beside those of writes that were given up, also if the size is 1. */
  function resize(): void {
    if (limited) return;
    pool.options.max = Math.max(size, held + 1);
    // The driver looks at its queue only when a connection comes or goes.
    if (pool.waitingCount > 0) pool.connect().then((client) => client.release(), ignore);
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
   * Releases `client` when the server has let its job go, at `settled`. No cancel request: one that meets a commit that waits for its standby ends the wait,
   * not the commit, and shows what a failover loses (https://www.postgresql.org/docs/18/warm-standby.html#SYNCHRONOUS-REPLICATION-HA).
   */
  async function abandon(client: pg.PoolClient, { writes }: Job, settled: Promise<unknown>): Promise<void> {
    errors.timeout += 1;
    abandoned.add(client);
    held += Number(writes > 0);
    resize();
    connectionOf.get(client)?.stop();
    let ended = false;
    const end = settled.catch(() => undefined).then(() => (ended = true));
    do await Promise.race([end, sleep(letGoAfterMs, undefined, { ref: false })]);
    while (!ended && writes > 0 && (await waitsForStandby()));
    // Not before: until the server lets it go, it counts against the pool.
    client.release(true);
    abandoned.delete(client);
    held -= Number(writes > 0);
    resize();
  }

  /** While the database cannot be reached, all jobs wait for one attempt at a time: a server that has just come back is not flooded. */
  async function reconnect(): Promise<void> {
    // Also while it closes, for the jobs that still wait.
    while (unreachable !== undefined && !(closed && running === 0)) {
      await sleep(jitter(reconnectAfterMs));
      try {
        (await pool.connect()).release();
        unreachable = undefined;
      } catch (error) {
        errors[reasonOf(error)] += 1;
        unreachable = error;
      }
    }
  }

  /** Rejects only if the job's deadline has passed. */
  async function checkOut(job: Job): Promise<pg.PoolClient> {
    for (;;) {
      while (!job.late && (reconnecting ?? losing)) await (reconnecting ?? losing);
      if (job.late) throw new TimeoutError(noneFree);
      try {
        const client = await pool.connect();
        if (!job.late) return client;
        client.release();
      } catch (error) {
        // The error may be the pool's time-out for its queue.
        if (job.late) continue;
        errors[reasonOf(error)] += 1;
        job.refused = error;
        if (open > 0 && (hasNoMore(error) || workedAt > performance.now() - connectTimeoutMs)) {
          // Jobs wait for those that are open. Without this, the pool would try again for the next job at once.
          pool.options.max = open;
          clearTimeout(limited);
          limited = setTimeout(() => {
            limited = undefined;
            resize();
          }, askAgainMs).unref();
          continue;
        }
        unreachable = error;
        reconnecting ??= reconnect().finally(() => {
          reconnecting = undefined;
        });
      }
    }
  }

  async function attempts<Result>(job: Job, work: Work<Result>): Promise<Result> {
    for (let mayRepeat = job.writes === 0; ; await sleep(jitter(retryAfterMs))) {
      const client = await checkOut(job);
      job.client = client;
      const begun = performance.now();
      let isUnusable = false;
      try {
        const result = await work(connectionOf.get(client) as Connection);
        workedAt = performance.now();
        return result;
      } catch (error) {
        isUnusable = endsConnection(error);
        if (isUnusable)
          losing ??= nextTurn().then(() => {
            losing = undefined;
          });
        if (!job.late || error instanceof StandbyError) errors[reasonOf(error)] += 1;
        const isLost = !wasRefused(error);
        if (job.late || (isLost && !(mayRepeat && isUnusable))) throw error;
        if (isLost) mayRepeat = false;
        job.client = undefined;
        job.refused = error;
      } finally {
        metrics?.query(job.writes > 0 ? 'write' : 'read', Math.min(performance.now() - begun, deadlineMs));
        if (isUnusable) connectionOf.delete(client);
        // Otherwise abandon() releases it.
        if (!job.late) client.release(isUnusable || isInTransaction(client));
      }
    }
  }

  /** Attempts a write when few enough others are under way. */
  async function attemptWrite<Result>(job: Job, work: Work<Result>): Promise<Result> {
    queued += 1;
    while (writing >= maxWrites && !job.late) await changed.promise;
    queued -= 1;
    writing += 1;
    try {
      return await attempts(job, work);
    } finally {
      writing -= 1;
      wakeWrites();
    }
  }

  async function run<Result>(work: Work<Result>, writes: number, withinMs = deadlineMs): Promise<Result> {
    if (closed) throw unavailable(new Error('the store is closed'));
    // Without time left, a statement would be given up as soon as it is sent, and its outcome unknown.
    const job: Job = { writes, client: undefined, late: withinMs <= 0, refused: undefined };
    const { promise: expired, reject } = Promise.withResolvers<never>();
    const settled = writes > 0 ? attemptWrite(job, work) : attempts(job, work);
    const timer = setTimeout(() => {
      job.late = true;
      const reason = job.client ? 'the database did not answer in time' : noneFree;
      // Why the attempt before was refused says more than the time-out of the last one.
      reject(job.refused ?? (job.client ? undefined : unreachable) ?? new TimeoutError(reason));
      if (job.client) void abandon(job.client, job, settled);
      else wakeWrites();
    }, withinMs);
    running += 1;
    try {
      const result = await Promise.race([settled, expired]);
      if (writes > 0) metrics?.commit(writes);
      return result;
    } catch (error) {
      const failure = translate(error, job.late);
      if (writes > 0) {
        counts.failedWrites[reasonOf(error)] += writes;
        metrics?.failed(failure, writes);
      }
      throw failure;
    } finally {
      clearTimeout(timer);
      running -= 1;
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
      busy: pool.totalCount - pool.idleCount,
      waiting: pool.waitingCount + queued,
      abandoned: abandoned.size,
    }),
    /** Resolves when every job is answered; the connections close then. A commit that waits for its standby goes on waiting. */
    close() {
      closed ??= (async () => {
        while (running > 0) await sleep(1);
        for (const client of abandoned) streamOf(client).destroy();
        await pool.end();
      })();
      return closed;
    },
  };
}
