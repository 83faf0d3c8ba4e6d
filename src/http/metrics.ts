/** The metrics for operators, in the Prometheus text format. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, type Metric, Registry } from 'prom-client';
import type { ApiKey } from '../core/accounts.ts';
import { type TrailEventName, trailEvents } from '../core/people.ts';
import { type PlaceName, placeNames } from './exchange.ts';
import type { EndedExchange, OnEnd } from './request-log.ts';

interface StoreState {
  waitingWrites: number;
  walBytes: number | undefined;
  /** Writes that could not be committed, by reason. */
  failedWrites: Readonly<Record<string, number>>;
  /** Milliseconds since 1970; 0: never. */
  lastFailedWriteAt: number;
  /** The file system of the store, in bytes. */
  disk?: { size: number; available: number } | undefined;
  pool?: PoolState | undefined;
}

interface PoolState {
  /** Connections to the database: the most, and those in use. */
  limit: number;
  busy: number;
  /** Jobs that wait for a connection. */
  waiting: number;
  /** Connections given up at a deadline: those that the database has not let go yet, and all since the start. */
  abandoned: number;
  abandonedTotal: number;
  /** By class. */
  errors: Readonly<Record<string, number>>;
}

/** How often a cache had the response. */
export interface CacheUse {
  hits: number;
  misses: number;
}

export interface Sources {
  /** A metric whose value is undefined is left out: each engine has some that the other lacks. */
  store: () => StoreState;
  pages: () => CacheUse;
  /** Places taken by requests and connections. */
  taken: () => Record<PlaceName | 'connections' | 'pipelined', number>;
}

export interface Metrics {
  registry: Registry;
  request(exchange: EndedExchange): void;
  deprecatedCall(key: ApiKey): void;
  /** The ids of the API keys that deprecated calls are counted by. */
  deprecatedKeys(): number[];
  /** Forgets the counts of these API keys. */
  dropDeprecated(ids: number[]): void;
  /** A request was rejected because a limit was reached. */
  limited(limit: (typeof limits)[number]): void;
  /** An account or a key was changed, or someone signed in. */
  accountEvent(event: TrailEventName): void;
  /** `writes` writes shared one commit. */
  commit(writes: number): void;
  /** A statement took `ms` milliseconds on its connection to the database. */
  query(kind: 'read' | 'write', ms: number): void;
  /** Reads the state of `sources` at each scrape. */
  watch(sources: Sources): void;
}

const limits = ['key', 'refusals', 'in_flight', 'connections', 'event_loop'] as const;
const takenNames = [...placeNames, 'connections', 'pipelined'] as const;
const durations = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const batches = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

interface Series<Labels> {
  labels: Labels;
  /** Durations per bucket: longer than the previous bound, but not longer than this one. The last bucket counts all longer ones. */
  counts: number[];
  sum: number;
}

/**
 * A histogram that is fast enough to update for every request. prom-client's histogram looks up its series by name each time, and each
 * bucket by the text of its bound, which takes a tenth of the time of a read.
 */
function createDurations<Labels extends object>(name: string, help: string) {
  const all: Series<Labels>[] = [];

  function valuesOf({ labels, counts, sum }: Series<Labels>) {
    let count = 0;
    const buckets = [...durations, '+Inf'].map((le, at) => {
      count += counts[at] as number;
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }

  function add(labels: Labels): Series<Labels> {
    const series = { labels, counts: Array<number>(durations.length + 1).fill(0), sum: 0 };
    all.push(series);
    return series;
  }

  const metric = {
    name,
    help,
    aggregator: 'sum',
    reset: () => {
      for (const series of all) {
        series.counts.fill(0);
        series.sum = 0;
      }
    },
    get: async () => ({
      name,
      help,
      type: 'histogram',
      aggregator: 'sum',
      values: all.flatMap(valuesOf),
    }),
  };
  // This object has only the members of Metric that prom-client's registry and its cluster aggregation use.
  return { metric: metric as unknown as Metric, add };
}

function observe(series: Series<object>, ms: number): void {
  const seconds = ms / 1000;
  let at = 0;
  while (seconds > (durations[at] as number)) at += 1;
  (series.counts[at] as number) += 1;
  series.sum += seconds;
}

function createRequestDurations(): { metric: Metric; count: OnEnd } {
  const { metric, add } = createDurations<{ method: string; route: string; status: number }>(
    'http_request_duration_seconds',
    'Duration of requests, from the arrival of the headers to the close of the response, by method, route template and status.',
  );
  /** Indexed by route: a key of all three labels would be a new string for each request. */
  const byRoute = new Map<string, ReturnType<typeof add>[]>();

  function seriesOf(method: string, route: string, status: number) {
    const ofRoute = byRoute.get(route) ?? [];
    for (const series of ofRoute) {
      if (series.labels.status === status && series.labels.method === method) return series;
    }
    const series = add({ method, route, status });
    byRoute.set(route, [...ofRoute, series]);
    return series;
  }

  return {
    metric,
    count: ({ method = 'none', route, status, ms = 0 }) => observe(seriesOf(method, route ?? 'none', status), ms),
  };
}

/** `version`: the running release. `lostLines`: returns how many log lines were lost. */
export function createMetrics(version: string, lostLines = () => 0): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const requests = createRequestDurations();
  registry.registerMetric(requests.metric);
  const queries = createDurations<{ kind: 'read' | 'write' }>(
    'animal_store_database_query_duration_seconds',
    'Duration of statements of PostgreSQL, without the wait for a connection, and at most to their deadline, by kind.',
  );
  const queriesOf = { read: queries.add({ kind: 'read' }), write: queries.add({ kind: 'write' }) };
  /** Indexed by the id of the API key: finding a series by its labels costs more than counting in it. */
  const deprecatedCalls = new Map<number, { account: string; key: string; count: number }>();
  new Counter({
    name: 'animal_store_deprecated_calls_total',
    help: 'Calls of the deprecated operation getPet, by the ids of the account and of the API key.',
    labelNames: ['account', 'key'] as const,
    registers,
    collect() {
      this.reset();
      for (const { count, ...labels } of deprecatedCalls.values()) this.inc(labels, count);
    },
  });
  const limited = new Counter({
    name: 'animal_store_limited_requests_total',
    help: 'Requests rejected because of a limit: requests per account (key), rejected API keys per address (refusals), requests in flight (in_flight), connections (connections), a blocked event loop (event_loop).',
    labelNames: ['limit'] as const,
    registers,
  });
  // rate() needs an initial value to start from.
  for (const limit of limits) limited.inc({ limit }, 0);
  const accountEvents = new Counter({
    name: 'animal_store_account_events_total',
    help: 'Changes to accounts and API keys, and sign-ins, by event.',
    labelNames: ['event'] as const,
    registers,
  });
  for (const event of trailEvents) accountEvents.inc({ event }, 0);
  const commits = new Histogram({
    name: 'animal_store_commit_writes',
    help: 'Number of writes per commit.',
    buckets: batches,
    registers,
  });
  let lastCommitAt = 0;
  new Gauge({
    name: 'animal_store_last_commit_timestamp_seconds',
    help: 'When the last commit succeeded, in seconds since 1970; 0 if none has since the start.',
    registers,
    aggregator: 'max',
    collect() {
      this.set(lastCommitAt / 1000);
    },
  });
  const build = new Gauge({
    name: 'animal_store_build_info',
    help: 'Always 1. The label version is the running release.',
    labelNames: ['version'] as const,
    registers,
    aggregator: 'first',
  });
  build.set({ version }, 1);
  new Counter({
    name: 'animal_store_log_lines_lost_total',
    help: 'Log lines that could not be written.',
    registers,
    collect() {
      this.reset();
      this.inc(lostLines());
    },
  });

  function watch({ store, pages, taken }: Sources): void {
    new Gauge({
      name: 'animal_store_held',
      help: 'Places taken now: requests (requests), requests that the store is working on (work), request bodies arriving (bodies), response bytes that clients have not read (unread_bytes), connections (connections), queued pipelined requests (pipelined).',
      labelNames: ['what'] as const,
      registers,
      collect() {
        const now = taken();
        for (const what of takenNames) this.set({ what }, now[what]);
      },
    });
    const gauge = (name: string, help: string, read: () => number, aggregator: 'sum' | 'max' | 'min') =>
      new Gauge({
        name,
        help,
        registers,
        aggregator,
        collect() {
          this.set(read());
        },
      });
    gauge('animal_store_waiting_writes', 'Writes waiting for their commit.', () => store().waitingWrites, 'sum');
    const { walBytes, disk, pool } = store();
    if (walBytes !== undefined) {
      gauge('animal_store_wal_bytes', 'Write-ahead log (WAL) size in bytes.', () => store().walBytes ?? 0, 'max');
    }
    new Counter({
      name: 'animal_store_failed_writes_total',
      help: 'Writes that the store could not commit, by reason.',
      labelNames: ['reason'] as const,
      registers,
      collect() {
        this.reset();
        for (const [reason, count] of Object.entries(store().failedWrites)) this.inc({ reason }, count);
      },
    });
    gauge(
      'animal_store_last_failed_write_timestamp_seconds',
      'When the store last failed to commit a write, in seconds since 1970; 0 if it never has since the start.',
      () => store().lastFailedWriteAt / 1000,
      'max',
    );
    if (disk !== undefined) {
      const read = (what: 'size' | 'available') => () => store().disk?.[what] ?? 0;
      gauge('animal_store_disk_bytes', 'Size of the file system of the store.', read('size'), 'max');
      gauge('animal_store_disk_available_bytes', 'Room left on it for the server.', read('available'), 'min');
    }
    const counter = (name: string, help: string, read: () => number) =>
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset();
          this.inc(read());
        },
      });
    if (pool !== undefined) {
      const read = (what: Exclude<keyof PoolState, 'errors'>) => () => store().pool?.[what] ?? 0;
      gauge('animal_store_database_connections_max', 'Most connections to the database.', read('limit'), 'sum');
      gauge('animal_store_database_connections_busy', 'Connections to the database in use.', read('busy'), 'sum');
      gauge('animal_store_database_jobs_waiting', 'Jobs that wait for a connection.', read('waiting'), 'sum');
      gauge(
        'animal_store_database_connections_abandoned',
        'Connections given up because a statement passed its deadline, which the database has not let go yet.',
        read('abandoned'),
        'sum',
      );
      counter(
        'animal_store_database_connections_abandoned_total',
        'Connections given up because a statement passed its deadline.',
        read('abandonedTotal'),
      );
      new Counter({
        name: 'animal_store_database_errors_total',
        help: 'Errors of the database, by SQLSTATE class; besides, connection: lost or not opened; timeout: no answer before the deadline; standby: a commit that the standby may lack; other: any other class.',
        labelNames: ['class'] as const,
        registers,
        collect() {
          this.reset();
          for (const [name, count] of Object.entries(store().pool?.errors ?? {})) this.inc({ class: name }, count);
        },
      });
      registry.registerMetric(queries.metric);
    }
    counter('animal_store_cache_hits_total', 'Reads served from the response cache.', () => pages().hits);
    counter('animal_store_cache_misses_total', 'Reads served from the store.', () => pages().misses);
  }

  return {
    registry,
    request: requests.count,
    deprecatedCall({ id, accountId }) {
      const calls = deprecatedCalls.get(id);
      if (calls) calls.count += 1;
      else deprecatedCalls.set(id, { account: String(accountId), key: String(id), count: 1 });
    },
    deprecatedKeys: () => [...deprecatedCalls.keys()],
    dropDeprecated(ids) {
      for (const id of ids) deprecatedCalls.delete(id);
    },
    limited: (limit) => limited.inc({ limit }),
    accountEvent: (event) => accountEvents.inc({ event }),
    commit(writes) {
      commits.observe(writes);
      lastCommitAt = Date.now();
    },
    query: (kind, ms) => observe(queriesOf[kind], ms),
    watch,
  };
}
