/** The metrics for operators, in the Prometheus text format. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { ApiKey } from '../core/accounts.ts';
import { type TrailEventName, trailEvents } from '../core/people.ts';
import { addDuration, createDurations, type Series } from './durations.ts';
import type { OnEnd } from './request-log.ts';
import {
  type Memory,
  type Meters,
  metersOf,
  type Sources,
  watchCache,
  watchPlaces,
  watchPool,
  watchProcess,
  watchStore,
} from './state-metrics.ts';

export interface Metrics extends DeprecatedCalls {
  registry: Registry;
  request: OnEnd;
  /** A request was rejected because a limit was reached. */
  limited(limit: (typeof limits)[number]): void;
  /** An account or a key was changed, or someone signed in. */
  accountEvent(event: TrailEventName): void;
  /** `writes` writes shared one commit. */
  commit(writes: number): void;
  /** A statement took `ms` milliseconds on its connection to the database. */
  query(kind: QueryKind, ms: number): void;
  /** Reads the state of `sources` at each scrape. */
  watch(sources: Sources): void;
}

const limits = ['key', 'refusals', 'in_flight', 'connections', 'event_loop'] as const;

/** `version` and `revision`: the running release and its commit. `lostLines`: returns how many log lines were lost. */
export function createMetrics(version: string, lostLines = () => 0, revision = '', memory?: Memory): Metrics {
  const registry = new Registry();
  const meters = metersOf(registry);
  collectDefaultMetrics({ register: registry });
  const request = countRequests(registry);
  const deprecatedCalls = countDeprecatedCalls(registry);
  const limited = countEvents(
    registry,
    'animal_store_limited_requests_total',
    'Requests rejected because of a limit: requests per account (key), rejected API keys per address (refusals), requests in flight (in_flight), connections (connections), an overloaded event loop (event_loop).',
    'limit',
    limits,
  );
  const accountEvent = countEvents(
    registry,
    'animal_store_account_events_total',
    'Changes to accounts and API keys, and sign-ins, by event.',
    'event',
    trailEvents,
  );
  const commit = countCommits(registry, meters);
  const build = new Gauge({
    name: 'animal_store_build_info',
    help: 'Always 1. The labels version and revision are the running release and its commit.',
    labelNames: ['version', 'revision'] as const,
    registers: [registry],
  });
  build.set({ version, revision }, 1);
  meters.counter('animal_store_log_lines_lost_total', 'Log lines that could not be written.', lostLines);
  watchProcess(meters, memory);
  const queries = createQueryDurations();

  return {
    registry,
    request,
    ...deprecatedCalls,
    limited,
    accountEvent,
    commit,
    query: queries.count,
    watch({ store, pages, taken }) {
      watchPlaces(registry, taken);
      watchStore(meters, store);
      if (store().pool !== undefined) {
        watchPool(meters, store);
        queries.register(registry);
      }
      watchCache(meters, pages);
    },
  };
}

interface RequestLabels {
  method: string;
  route: string;
  status: number;
}

function countRequests(registry: Registry): OnEnd {
  const { register, addSeries } = createDurations<RequestLabels>(
    'http_request_duration_seconds',
    'Duration of requests, from the arrival of the headers to the close of the response, by method, route template and status.',
  );
  register(registry);
  /** Indexed by route: a key of all three labels would be a new string for each request. */
  const byRoute = new Map<string, Series<RequestLabels>[]>();

  function seriesOf(method: string, route: string, status: number) {
    const ofRoute = byRoute.get(route) ?? [];
    for (const series of ofRoute) {
      if (series.labels.status === status && series.labels.method === method) return series;
    }
    const series = addSeries({ method, route, status });
    byRoute.set(route, [...ofRoute, series]);
    return series;
  }

  return ({ method = 'none', route, status, ms = 0 }) => addDuration(seriesOf(method, route ?? 'none', status), ms);
}

interface DeprecatedCalls {
  deprecatedCall(key: ApiKey): void;
  /** The ids of the API keys that deprecated calls are counted by. */
  deprecatedKeys(): number[];
  /** Forgets the counts of these API keys. */
  dropDeprecated(ids: number[]): void;
}

function countDeprecatedCalls(registry: Registry): DeprecatedCalls {
  /** Indexed by the id of the API key: finding a series by its labels costs more than counting in it. */
  const calls = new Map<number, { account: string; key: string; count: number }>();
  new Counter({
    name: 'animal_store_deprecated_calls_total',
    help: 'Calls of the deprecated operation getPet, by the ids of the account and of the API key.',
    labelNames: ['account', 'key'] as const,
    registers: [registry],
    collect() {
      this.reset();
      for (const { count, ...labels } of calls.values()) this.inc(labels, count);
    },
  });
  return {
    deprecatedCall({ id, accountId }) {
      const ofKey = calls.get(id);
      if (ofKey) ofKey.count += 1;
      else calls.set(id, { account: String(accountId), key: String(id), count: 1 });
    },
    deprecatedKeys: () => [...calls.keys()],
    dropDeprecated(ids) {
      for (const id of ids) calls.delete(id);
    },
  };
}

/** Adds a counter with one label. Returns a function that counts one event. */
function countEvents<Event extends string>(
  registry: Registry,
  name: string,
  help: string,
  label: string,
  events: readonly Event[],
): (event: Event) => void {
  const counter = new Counter({ name, help, labelNames: [label], registers: [registry] });
  // rate() needs an initial value to start from.
  for (const event of events) counter.inc({ [label]: event }, 0);
  return (event) => counter.inc({ [label]: event });
}

function countCommits(registry: Registry, { gauge }: Meters): (writes: number) => void {
  const commits = new Histogram({
    name: 'animal_store_commit_writes',
    help: 'Number of writes per commit.',
    buckets: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    registers: [registry],
  });
  let lastCommitAt = 0;
  gauge(
    'animal_store_last_commit_timestamp_seconds',
    'When the last commit succeeded, in seconds since 1970; 0 if none has since the start.',
    () => lastCommitAt / 1000,
  );
  return (writes) => {
    commits.observe(writes);
    lastCommitAt = Date.now();
  };
}

type QueryKind = 'read' | 'write';

/** PostgreSQL only: `register` adds the metric where it is used. */
function createQueryDurations(): { register(registry: Registry): void; count(kind: QueryKind, ms: number): void } {
  const { register, addSeries } = createDurations<{ kind: QueryKind }>(
    'animal_store_database_query_duration_seconds',
    'Duration of statements of PostgreSQL, without the wait for a connection, and at most to their deadline, by kind.',
  );
  const series = { read: addSeries({ kind: 'read' }), write: addSeries({ kind: 'write' }) };
  return { register, count: (kind, ms) => addDuration(series[kind], ms) };
}
