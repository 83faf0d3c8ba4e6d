/** The metrics for operators, in the Prometheus text format: what is counted while requests run, and the state that is read at each scrape. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { StoreMeasures } from '../core/measures.ts';
import { type TrailEvent, trailEvents } from '../core/people.ts';
import { createHistogram, type Histogram, type Series } from './histogram.ts';
import type { OnEnd } from './log.ts';

export type Metrics = ReturnType<typeof createMetrics>;

/** Limits beyond which requests are rejected: see the help of the metric. */
const limitNames = ['key', 'refusals', 'pages', 'in_flight', 'connections'] as const;
export type Limit = (typeof limitNames)[number];

/** In seconds. */
const durations = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const batches = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/** A value, or one for each value of a label. */
type Reading = number | Readonly<Record<string, number>>;

/** In bytes, seconds and numbers. Undefined: the engine has no such value. A value that was measured before and is undefined now is 0. */
const storeMetrics: Record<string, [help: string, read: (store: StoreMeasures) => Reading | undefined]> = {
  waiting_writes: ['Writes waiting for their commit.', ({ waitingWrites }) => waitingWrites],
  failed_writes_total: ['Writes that the store could not commit, by reason.', ({ failedWrites }) => failedWrites],
  wal_bytes: ['Write-ahead log (WAL) size in bytes.', ({ walBytes }) => walBytes],
  disk_bytes: ['Size of the file system of the store.', ({ disk }) => disk?.size],
  disk_available_bytes: ['Room left on it for the server.', ({ disk }) => disk?.available],
  database_connections_max: ['Most connections to the database.', ({ pool }) => pool?.limit],
  database_connections_busy: ['Connections to the database in use.', ({ pool }) => pool?.busy],
  database_jobs_waiting: ['Jobs that wait for a connection.', ({ pool }) => pool?.waiting],
  database_connections_abandoned: [
    'Connections given up because a statement passed its deadline, which the database has not let go yet.',
    ({ pool }) => pool?.abandoned,
  ],
  database_errors_total: [
    'Errors of the database, by the reasons of animal_store_failed_writes_total; also those after which a statement ran again.',
    ({ pool }) => pool?.errors,
  ],
};

/** These are sent on any route, so a client could make a series of each: URL too long, unknown expectation. */
const anywhere = new Set([414, 417]);

const methods = new Set(['GET', 'HEAD', 'POST', 'OPTIONS']);

/** Files at the root count together. */
const firstPart = (route: string) => (/^\/[^/]+\.\w+$/.test(route) ? '/' : `/${route.split('/', 2)[1]}`);

function countRequests(histogram: Histogram): OnEnd {
  /** Indexed by route: a key of all three labels would be a new string for each request. */
  const byRoute = new Map<string, Series[]>();

  return ({ method = 'none', route, isOperation, status, ms = 0 }) => {
    // Clients choose methods and paths: those that nobody serves must not make series.
    const label = typeof route !== 'string' || anywhere.has(status) ? 'none' : isOperation ? route : firstPart(route);
    const shown = label === 'none' ? 'none' : methods.has(method) ? method : 'other';
    const ofRoute = byRoute.get(label) ?? [];
    let series = ofRoute.find(({ labels }) => labels.status === status && labels.method === shown);
    if (!series) {
      series = histogram.add({ method: shown, route: label, status });
      byRoute.set(label, [...ofRoute, series]);
    }
    series.observe(ms / 1000);
  };
}

/** `version` and `revision`: the running release and its commit. */
export function createMetrics(version: string, revision = '') {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const histograms: Histogram[] = [];

  function addHistogram(...given: Parameters<typeof createHistogram>): Histogram {
    const histogram = createHistogram(...given);
    histograms.push(histogram);
    return histogram;
  }

  /** Adds a metric whose value at each scrape is what `read` returns: a counter if its name ends in _total, otherwise a gauge. */
  function add(name: string, help: string, read: () => Reading, label = 'reason'): void {
    const Metric = name.endsWith('_total') ? Counter : Gauge;
    const metric: Counter | Gauge = new Metric({
      name,
      help,
      labelNames: typeof read() === 'number' ? [] : [label],
      registers,
      collect() {
        metric.reset();
        const now = read();
        if (typeof now === 'number') metric.inc(now);
        else for (const [key, value] of Object.entries(now)) metric.inc({ [label]: key }, value);
      },
    });
  }

  /** Adds a counter with one label. Returns a function that counts one event. */
  function countEvents<Event extends string>(name: string, help: string, label: string, events: readonly Event[]) {
    const counter = new Counter({ name, help, labelNames: [label], registers });
    // rate() needs an initial value to start from.
    for (const event of events) counter.inc({ [label]: event }, 0);
    return (event: Event) => counter.inc({ [label]: event });
  }

  new Gauge({
    name: 'animal_store_build_info',
    help: 'Always 1. The labels version and revision are the running release and its commit.',
    labelNames: ['version', 'revision'],
    registers,
  }).set({ version, revision }, 1);
  const commits = addHistogram('animal_store_commit_writes', 'Number of writes per commit.', batches).add({});
  const queries: Partial<Record<'read' | 'write', Series>> = {};

  return {
    registry,
    /** All metrics, in the text format of Prometheus. */
    text: async () => [await registry.metrics(), ...histograms.map(({ text }) => `${text()}\n`)].join('\n'),
    add,
    request: countRequests(
      addHistogram(
        'http_request_duration_seconds',
        'Duration of requests, from the arrival of the headers, or of the body, to the close of the response, by method, route template and status. Documents, pages and the files of pages count by the first part of their path, files at the root as /; what nobody serves, and what is refused on any path (414, 417), counts as none.',
        durations,
      ),
    ),
    /** A request was rejected because a limit was reached. */
    limited: countEvents(
      'animal_store_limited_requests_total',
      'Requests rejected because of a limit: requests per account (key), rejected API keys per network (refusals), account pages per account and network (pages), requests in flight (in_flight), connections (connections).',
      'limit',
      limitNames,
    ),
    /** An account or a key was changed, or someone signed in. */
    accountEvent: countEvents<TrailEvent>(
      'animal_store_account_events_total',
      'Changes to accounts and API keys, and sign-ins, by event.',
      'event',
      trailEvents,
    ),
    /** `writes` writes shared one commit. */
    commit: commits.observe,
    /** A statement took `ms` milliseconds on its connection to the database. */
    query: (kind: 'read' | 'write', ms: number) => queries[kind]?.observe(ms / 1000),
    /** Reads the state of the store at each scrape. */
    watch(store: () => StoreMeasures): void {
      // What is undefined is left out: each engine has some that the other lacks.
      for (const [name, [help, read]] of Object.entries(storeMetrics))
        if (read(store()) !== undefined) add(`animal_store_${name}`, help, () => read(store()) ?? 0);
      if (!store().pool) return;
      const histogram = addHistogram(
        'animal_store_database_query_duration_seconds',
        'Duration of statements of PostgreSQL, without the wait for a connection, and at most to their deadline, by kind.',
        durations,
      );
      for (const kind of ['read', 'write'] as const) queries[kind] = histogram.add({ kind });
    },
  };
}
