/** The metrics that are read from the store at each scrape. Each engine has some that the other lacks. */
import { expect, test } from 'vitest';
import type { StoreMeasures } from '../../../src/core/measures.ts';
import { createMetrics } from '../../../src/http/metrics.ts';

test('has what each engine measures, and 0 for what it no longer does', async () => {
  const common: StoreMeasures = {
    ...{ waitingWrites: 3, walBytes: undefined, failedWrites: { disk_full: 2 }, lastFailedWriteAt: 5000 },
  };
  const pool = { limit: 10, busy: 4, waiting: 1, abandoned: 2, errors: { timeout: 6 } };
  const [sqlite, postgres] = [
    { ...common, walBytes: 4096, disk: { size: 100, available: 40 } },
    { ...common, pool },
  ];
  /** The values of the metrics, by their names without `animal_store_`; with a label, its value follows. */
  const watch = (store: () => StoreMeasures) => {
    const metrics = createMetrics('test');
    metrics.watch({ store, taken: () => ({ requests: 1, connections: 4 }) });
    return async () => {
      const found = (await metrics.registry.metrics()).matchAll(/^animal_store_(\w+)(?:\{\w+="(\w+)"\})? (\S+)$/gm);
      return Object.fromEntries(
        [...found].map(([, name, label, value]) => [[name, label].join(' ').trim(), Number(value)]),
      );
    };
  };
  let now: StoreMeasures = sqlite;
  const read = watch(() => now);
  const both = { waiting_writes: 3, 'failed_writes_total disk_full': 2, last_failed_write_timestamp_seconds: 5 };
  const values = await read();
  expect(values).toMatchObject({
    ...{ ...both, wal_bytes: 4096, disk_bytes: 100, disk_available_bytes: 40 },
    'held connections': 4,
  });
  expect(Object.keys(values).filter((name) => name.startsWith('database_'))).toEqual([]);
  now = common;
  expect(await read()).toMatchObject({ wal_bytes: 0, disk_bytes: 0 });

  const ofPool = await watch(() => postgres)();
  expect(ofPool).toMatchObject({
    ...{ ...both, database_connections_max: 10, database_connections_busy: 4, database_jobs_waiting: 1 },
    database_connections_abandoned: 2,
    'database_errors_total timeout': 6,
  });
  expect(ofPool).not.toHaveProperty('wal_bytes');
  expect(ofPool).not.toHaveProperty('disk_bytes');
});
