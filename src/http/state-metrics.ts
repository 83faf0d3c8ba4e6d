/** Metrics that are read from the state of the server at each scrape. */
import type { Metric, Registry } from 'prom-client';
import type { StoreMeasures } from '../core/measures.ts';

export interface Sample {
  /** By default that of the metric. */
  metricName?: string;
  labels: object;
  value: number;
}

/** Adds a metric whose value at each scrape is what `read` returns: a number, or a sample for each series. */
export type AddMetric = (name: string, help: string, read: () => number | Sample[], type?: 'histogram') => void;

export function createAddMetric(registry: Registry): AddMetric {
  return (name, help, read, given) => {
    const type = given ?? (name.endsWith('_total') ? 'counter' : 'gauge');
    const get = async () => {
      const found = read();
      return { name, help, type, values: typeof found === 'number' ? [{ labels: {}, value: found }] : found };
    };
    // This object has only the members of Metric that prom-client's registry uses.
    registry.registerMetric({ name, help, type, get } as unknown as Metric);
  };
}

/** A sample for each member of `counts`, whose name is the value of `label`. */
export function byLabel(label: string, counts: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }));
}

export interface Sources {
  /** A metric whose value is undefined is left out: each engine has some that the other lacks. */
  store: () => StoreMeasures;
  /** Places taken by requests and connections, by their kinds. */
  taken: () => Record<string, number>;
}

/** In bytes, seconds and numbers. What is undefined is not of this engine, and what is no longer measured is 0. */
const storeMetrics: Record<string, [help: string, read: (store: StoreMeasures) => number | Sample[] | undefined]> = {
  waiting_writes: ['Writes waiting for their commit.', ({ waitingWrites }) => waitingWrites],
  failed_writes_total: [
    'Writes that the store could not commit, by reason.',
    ({ failedWrites }) => byLabel('reason', failedWrites),
  ],
  last_failed_write_timestamp_seconds: [
    'When the store last failed to commit a write, in seconds since 1970; 0 if it never has since the start.',
    ({ lastFailedWriteAt }) => lastFailedWriteAt / 1000,
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

export function addState(add: AddMetric, { store, taken }: Sources): void {
  add(
    'animal_store_held',
    'Places taken now: requests (requests), requests that the store is working on (work), request bodies arriving (bodies), response bytes that clients have not read (unread_bytes), connections (connections), queued pipelined requests (pipelined).',
    () => byLabel('what', taken()),
  );
  for (const [name, [help, read]] of Object.entries(storeMetrics))
    if (read(store()) !== undefined) add(`animal_store_${name}`, help, () => read(store()) ?? 0);
}
