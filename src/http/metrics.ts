/** What operators watch, in the form that Prometheus reads. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, type Metric, Registry } from 'prom-client';
import type { ApiKey } from '../accounts.ts';
import { type HeldName, heldNames } from './exchange.ts';
import type { Observation } from './request-log.ts';
import type { CacheUse } from './response-cache.ts';

export interface Sources {
  /** Writes that wait for their commit, and the size of the write-ahead log where the engine tells it. */
  store: () => { waitingWrites: number; walBytes: number | undefined };
  pages: () => CacheUse;
  /** What requests and connections hold. */
  held: () => Record<HeldName | 'connections' | 'pipelined', number>;
}

export interface Metrics {
  registry: Registry;
  request(answered: Observation): void;
  deprecatedCall(key: ApiKey): void;
  /** A request was refused because a limit was reached. */
  limited(limit: (typeof limits)[number]): void;
  /** So many writes shared a commit. */
  commit(writes: number): void;
  /** Asked for their state at each scrape. */
  watch(sources: Sources): void;
}

const limits = ['key', 'refusals', 'in_flight', 'connections', 'event_loop'] as const;
const holdable = [...heldNames, 'connections', 'pipelined'] as const;
const durations = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const batches = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

interface Series {
  labels: { method: string; route: string; status: number };
  /** How many took longer than the bound before and no longer than this one; the last: longer than all. */
  counts: number[];
  sum: number;
}

/**
 * A histogram for what every request is counted in. That of prom-client looks its series up by name each time, and each bucket by the
 * text of its bound, which takes a tenth of a read.
 */
function createDurations(name: string, help: string): { metric: Metric; observe: (answered: Observation) => void } {
  const all: Series[] = [];
  /** By route: one key of all three labels would be a new text for each request. */
  const byRoute = new Map<string, Series[]>();

  function valuesOf({ labels, counts, sum }: Series) {
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

  function seriesOf(method: string, route: string, status: number): Series {
    const ofRoute = byRoute.get(route) ?? [];
    for (const series of ofRoute) {
      if (series.labels.status === status && series.labels.method === method) return series;
    }
    const series = { labels: { method, route, status }, counts: Array(durations.length + 1).fill(0), sum: 0 };
    byRoute.set(route, [...ofRoute, series]);
    all.push(series);
    return series;
  }

  const metric = {
    name,
    help,
    aggregator: 'sum',
    reset: () => {
      all.length = 0;
      byRoute.clear();
    },
    get: async () => ({
      name,
      help,
      type: 'histogram',
      aggregator: 'sum',
      values: all.flatMap(valuesOf),
    }),
  };
  return {
    // What the registry asks of a metric, and the cluster's aggregation after it.
    metric: metric as unknown as Metric,
    observe({ method = 'none', route, status, ms = 0 }) {
      const series = seriesOf(method, route ?? 'none', status);
      const seconds = ms / 1000;
      let at = 0;
      while (seconds > (durations[at] as number)) at += 1;
      (series.counts[at] as number) += 1;
      series.sum += seconds;
    },
  };
}

/** `version` is the release that runs; `lostLines`, how many lines of the log were lost. */
export function createMetrics(version: string, lostLines = () => 0): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const requests = createDurations(
    'http_request_duration_seconds',
    'Requests by method, route template and status, from their headers to the close of their response.',
  );
  registry.registerMetric(requests.metric);
  /** By the id of the key: to find a series by its labels costs more than to count in it. */
  const deprecatedCalls = new Map<number, { account: string; key: string; count: number }>();
  new Counter({
    name: 'animal_store_deprecated_calls_total',
    help: 'Calls of getPet by API key.',
    labelNames: ['account', 'key'] as const,
    registers,
    collect() {
      this.reset();
      for (const { count, ...labels } of deprecatedCalls.values()) this.inc(labels, count);
    },
  });
  const limited = new Counter({
    name: 'animal_store_limited_requests_total',
    help: 'Requests refused because a limit was reached: of the key, of refused keys, of requests in flight, of connections, of the event loop.',
    labelNames: ['limit'] as const,
    registers,
  });
  // A rate needs a first value to start from.
  for (const limit of limits) limited.inc({ limit }, 0);
  const commits = new Histogram({
    name: 'animal_store_commit_writes',
    help: 'Writes that shared a commit.',
    buckets: batches,
    registers,
  });
  const build = new Gauge({
    name: 'animal_store_build_info',
    help: '1, with the release that runs.',
    labelNames: ['version'] as const,
    registers,
    aggregator: 'first',
  });
  build.set({ version }, 1);
  new Counter({
    name: 'animal_store_log_lines_lost_total',
    help: 'Lines of the log that could not be written.',
    registers,
    collect() {
      this.reset();
      this.inc(lostLines());
    },
  });

  function watch({ store, pages, held }: Sources): void {
    new Gauge({
      name: 'animal_store_held',
      help: 'What requests and connections hold now: requests, those that the store works for, bodies that arrive, bytes that clients have not read, connections, requests pipelined behind others.',
      labelNames: ['what'] as const,
      registers,
      collect() {
        const now = held();
        for (const what of holdable) this.set({ what }, now[what]);
      },
    });
    const gauge = (name: string, help: string, read: () => number, aggregator: 'sum' | 'max') =>
      new Gauge({
        name,
        help,
        registers,
        aggregator,
        collect() {
          this.set(read());
        },
      });
    gauge('animal_store_waiting_writes', 'Writes that wait for their commit.', () => store().waitingWrites, 'sum');
    const { walBytes } = store();
    if (walBytes !== undefined) {
      gauge('animal_store_wal_bytes', 'Size of the write-ahead log.', () => store().walBytes ?? 0, 'max');
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
    counter('animal_store_cache_hits_total', 'Reads answered from memory.', () => pages().hits);
    counter('animal_store_cache_misses_total', 'Reads answered from the store.', () => pages().misses);
  }

  return {
    registry,
    request: requests.observe,
    deprecatedCall({ id, account, name }) {
      const calls = deprecatedCalls.get(id);
      if (calls) calls.count += 1;
      else deprecatedCalls.set(id, { account, key: name, count: 1 });
    },
    limited: (limit) => limited.inc({ limit }),
    commit: (writes) => commits.observe(writes),
    watch,
  };
}
