/** The metrics for operators, in the Prometheus text format: what is counted while requests run, and the state that state-metrics.ts reads. */
import { collectDefaultMetrics, Registry } from 'prom-client';
import { trailEvents } from '../core/people.ts';
import type { OnEnd } from './request-record.ts';
import { type AddMetric, addState, byLabel, createAddMetric, type Sample, type Sources } from './state-metrics.ts';

export type Metrics = ReturnType<typeof createMetrics>;

const limits = ['key', 'refusals', 'in_flight', 'connections', 'event_loop'] as const;

/** `version` and `revision`: the running release and its commit. */
export function createMetrics(version: string, revision = '') {
  const registry = new Registry();
  const add = createAddMetric(registry);
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
      'Requests rejected because of a limit: requests per account (key), rejected API keys per address (refusals), requests in flight (in_flight), connections (connections), an overloaded event loop (event_loop).',
      'limit',
      limits,
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
    /** Reads the state of `sources` at each scrape. */
    watch(sources: Sources): void {
      addState(add, sources);
      if (sources.store().pool)
        addHistogram(
          add,
          'animal_store_database_query_duration_seconds',
          'Duration of statements of PostgreSQL, without the wait for a connection, and at most to their deadline, by kind.',
          () => Object.values(queries),
        );
    },
  };
}

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
interface Series<Labels extends object> {
  labels: Labels;
  bounds: readonly number[];
  /** How many values were above the bound before, and up to the one at this place; at last, how many were above all. */
  counts: number[];
  sum: number;
}

function newSeries<Labels extends object>(labels: Labels, bounds: readonly number[]): Series<Labels> {
  return { labels, bounds, counts: [...bounds, 0].fill(0), sum: 0 };
}

function observe(series: Series<object>, value: number): void {
  const { bounds, counts } = series;
  series.sum += value;
  let at = 0;
  while (at < bounds.length && value > (bounds[at] as number)) at += 1;
  (counts[at] as number) += 1;
}

function addHistogram(add: AddMetric, name: string, help: string, read: () => Series<object>[]): void {
  function samplesOf({ labels, bounds, counts, sum }: Series<object>): Sample[] {
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
  const byRoute = new Map<string, Series<{ method: string; route: string; status: number }>[]>();
  addHistogram(
    add,
    'http_request_duration_seconds',
    'Duration of requests, from the arrival of the headers to the close of the response, by method, route template and status.',
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
  let lastCommitAt = 0;
  addHistogram(add, 'animal_store_commit_writes', 'Number of writes per commit.', () => [commits]);
  add(
    'animal_store_last_commit_timestamp_seconds',
    'When the last commit succeeded, in seconds since 1970; 0 if none has since the start.',
    () => lastCommitAt / 1000,
  );
  return (writes) => {
    observe(commits, writes);
    lastCommitAt = Date.now();
  };
}
