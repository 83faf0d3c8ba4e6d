/** What operators watch, in the form that Prometheus reads. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { ApiKey } from '../accounts.ts';
import type { CacheUse } from './rendered.ts';
import type { Answered } from './request-log.ts';

export interface Sources {
  /** Writes that wait for their commit, and the size of the write-ahead log where the engine tells it. */
  store: () => { waitingWrites: number; walBytes: number | undefined };
  pages: () => CacheUse;
}

export interface Metrics {
  registry: Registry;
  request(answered: Answered): void;
  deprecatedCall(key: ApiKey): void;
  /** A request was refused because a limit was reached. */
  limited(limit: (typeof limits)[number]): void;
  /** So many writes shared a commit. */
  commit(writes: number): void;
  /** Asked for their state at each scrape. */
  watch(sources: Sources): void;
}

const limits = ['key', 'refusals', 'in_flight', 'event_loop'] as const;
const durations = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const batches = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/** `version` is the release that runs. */
export function createMetrics(version: string): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const requests = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Requests by method, route template and status, from their headers to the end of their answer.',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: durations,
    registers,
  });
  const deprecated = new Counter({
    name: 'animal_store_deprecated_calls_total',
    help: 'Calls of getPet by API key.',
    labelNames: ['account', 'key'] as const,
    registers,
  });
  const limited = new Counter({
    name: 'animal_store_limited_requests_total',
    help: 'Requests refused because a limit was reached: of the key, of refused keys, of requests in flight, of the event loop.',
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

  function watch({ store, pages }: Sources): void {
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
    request: ({ method = 'none', route, status, ms = 0 }) =>
      requests.observe({ method, route: route ?? 'none', status }, ms / 1000),
    deprecatedCall: ({ account, name }) => deprecated.inc({ account, key: name }),
    limited: (limit) => limited.inc({ limit }),
    commit: (writes) => commits.observe(writes),
    watch,
  };
}
