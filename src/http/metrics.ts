/** The metrics for operators, in the Prometheus text format: what is counted while requests run, and the state that is read at each scrape. */
import { collectDefaultMetrics, type Metric, Registry } from 'prom-client';
import type { StoreMeasures } from '../core/measures.ts';
import { trailEvents } from '../core/people.ts';
import type { OnEnd } from './request-record.ts';

export type Metrics = ReturnType<typeof createMetrics>;

/** `version` and `revision`: the running release and its commit. */
export function createMetrics(version: string, revision = '') {
  const registry = new Registry();
  const add: AddMetric = (name, help, read, given) => {
    const type = given ?? (name.endsWith('_total') ? 'counter' : 'gauge');
    const get = async () => {
      const found = read();
      return { name, help, type, values: typeof found === 'number' ? [{ labels: {}, value: found }] : found };
    };
    // This object has only the members of Metric that prom-client's registry uses.
    registry.registerMetric({ name, help, type, get } as unknown as Metric);
  };
  collectDefaultMetrics({ register: registry });
  add(
    'animal_store_build_info',
    'Always 1. The labels version and revision are the running release and its commit.',
    () => [{ labels: { version, revision }, value: 1 }],
  );
  const queries = {
    read: newSeries({ kind: 'read' }, durationBounds),
    write: newSeries({ kind: 'write' }, durationBounds),
  };
  return {
    registry,
    add,
    request: countRequests(add),
    /** A request was rejected because a limit was reached. */
    limited: countEvents(
      add,
      'animal_store_limited_requests_total',
      'Requests rejected because of a limit: requests per account (key), rejected API keys per network (refusals), requests in flight (in_flight), connections (connections), an overloaded event loop (event_loop).',
      'limit',
      ['key', 'refusals', 'in_flight', 'connections', 'event_loop'],
    ),
    /** An account or a key was changed, or someone signed in. */
    accountEvent: countEvents(
      add,
      'animal_store_account_events_total',
      'Changes to accounts and API keys, and sign-ins, by event.',
      'event',
      trailEvents,
    ),
    /** `writes` writes shared one commit. */
    commit: countCommits(add),
    /** A statement took `ms` milliseconds on its connection to the database. */
    query: (kind: 'read' | 'write', ms: number) => observe(queries[kind], ms / 1000),
    /** Reads the state of the server at each scrape. `taken`: places taken by requests and connections, by their kinds. */
    watch(store: () => StoreMeasures, taken: () => Record<string, number>): void {
      add(
        'animal_store_held',
        'Places taken now: requests (requests), requests that the store is working on (work), request bodies arriving (bodies), response bytes that clients have not read (unread_bytes), connections (connections), queued pipelined requests (pipelined).',
        () => byLabel('what', taken()),
      );
      // What is undefined is left out: each engine has some that the other lacks.
      for (const [name, [help, read]] of Object.entries(storeMetrics))
        if (read(store()) !== undefined) add(`animal_store_${name}`, help, () => read(store()) ?? 0);
      if (store().pool)
        addHistogram(
          add,
          'animal_store_database_query_duration_seconds',
          'Duration of statements of PostgreSQL, without the wait for a connection, and at most to their deadline, by kind.',
          () => Object.values(queries),
        );
    },
  };
}

interface Sample {
  /** By default that of the metric. */
  metricName?: string;
  labels: object;
  value: number;
}

/** Adds a metric whose value at each scrape is what `read` returns: a number, or a sample for each series. */
type AddMetric = (name: string, help: string, read: () => number | Sample[], type?: 'histogram') => void;

/** A sample for each member of `counts`, whose name is the value of `label`. */
function byLabel(label: string, counts: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }));
}

/** In bytes, seconds and numbers. What is undefined is not of this engine, and what is no longer measured is 0. */
const storeMetrics: Record<string, [help: string, read: (store: StoreMeasures) => number | Sample[] | undefined]> = {
  ids_left: ['Ids that are left for animals, as of the last one that this process added.', ({ idsLeft }) => idsLeft],
  waiting_writes: ['Writes waiting for their commit.', ({ waitingWrites }) => waitingWrites],
  failed_writes_total: [
    'Writes that the store could not commit, by reason.',
    ({ failedWrites }) => byLabel('reason', failedWrites),
  ],
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
    ({ pool }) => pool && byLabel('reason', pool.errors),
  ],
};

/** Adds a counter with one label. Returns a function that counts one event. */
function countEvents<Event extends string>(
  add: AddMetric,
  name: string,
  help: string,
  label: string,
  events: readonly Event[],
): (event: Event) => void {
  // rate() needs an initial value to start from.
  const counts = Object.fromEntries(events.map((event) => [event, 0])) as Record<Event, number>;
  add(name, help, () => byLabel(label, counts));
  return (event) => {
    counts[event] += 1;
  };
}

/**
 * A series of a histogram. prom-client's own histogram looks up its series by name each time, and each bucket by the text of its bound, which
 * takes a tenth of the time of a read.
 */
interface Series {
  labels: { kind?: string; method?: string; route?: string; status?: number };
  bounds: readonly number[];
  /** How many values were above the bound before, and up to the one at this place; at last, how many were above all. */
  counts: number[];
  sum: number;
}

function newSeries(labels: Series['labels'], bounds: readonly number[]): Series {
  return { labels, bounds, counts: [...bounds, 0].fill(0), sum: 0 };
}

function observe(series: Series, value: number): void {
  const { bounds, counts } = series;
  series.sum += value;
  let at = 0;
  while (at < bounds.length && value > (bounds[at] as number)) at += 1;
  (counts[at] as number) += 1;
}

function addHistogram(add: AddMetric, name: string, help: string, read: () => Series[]): void {
  function samplesOf({ labels, bounds, counts, sum }: Series): Sample[] {
    let value = 0;
    const buckets = counts.map((count, at) => {
      value += count;
      return { metricName: `${name}_bucket`, labels: { le: bounds[at] ?? '+Inf', ...labels }, value };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value },
    ];
  }
  add(name, help, () => read().flatMap(samplesOf), 'histogram');
}

/** In seconds. */
const durationBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

function countRequests(add: AddMetric): OnEnd {
  /** Indexed by route: a key of all three labels would be a new string for each request. */
  const byRoute = new Map<string, Series[]>();
  addHistogram(
    add,
    'http_request_duration_seconds',
    'Duration of requests, from the arrival of the headers, or of the body, to the close of the response, by method, route template and status.',
    () => [...byRoute.values()].flat(),
  );

  function seriesOf(method: string, route: string, status: number) {
    const ofRoute = byRoute.get(route) ?? [];
    for (const series of ofRoute) {
      if (series.labels.status === status && series.labels.method === method) return series;
    }
    const series = newSeries({ method, route, status }, durationBounds);
    byRoute.set(route, [...ofRoute, series]);
    return series;
  }

  return ({ method = 'none', route, status, ms = 0 }) => observe(seriesOf(method, route ?? 'none', status), ms / 1000);
}

function countCommits(add: AddMetric): (writes: number) => void {
  const commits = newSeries({}, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]);
  addHistogram(add, 'animal_store_commit_writes', 'Number of writes per commit.', () => [commits]);
  return (writes) => observe(commits, writes);
}
