/** The metrics that are read from the store at each scrape. Each engine has some that the other lacks. */
import { expect, test } from 'vitest';
import type { StoreMeasures } from '../../../src/core/measures.ts';
import { createMetrics } from '../../../src/http/metrics.ts';

const common: StoreMeasures = {
  waitingWrites: 3,
  walBytes: undefined,
  failedWrites: { disk_full: 2 },
  lastFailedWriteAt: 5000,
};
const embedded: StoreMeasures = { ...common, walBytes: 4096, disk: { size: 100, available: 40 } };
const shared: StoreMeasures = {
  ...common,
  pool: { limit: 10, busy: 4, waiting: 1, abandoned: 2, errors: { timeout: 6 } },
};

/** The values of the metrics of a store, by their names without `animal_store_`; with a label, its value follows. */
function watch(store: () => StoreMeasures) {
  const metrics = createMetrics('test');
  metrics.watch({ store, taken: () => ({ requests: 1, connections: 4 }) });
  return async () => {
    const lines = (await metrics.registry.metrics()).split('\n').filter((line) => line.startsWith('animal_store_'));
    const pairs = lines.map((line) => /^animal_store_(\w+)(?:\{\w+="(\w+)"\})? (\S+)$/.exec(line) ?? []);
    return Object.fromEntries(
      pairs.map(([, name, label, value]) => [[name, label].filter(Boolean).join(' '), Number(value)]),
    );
  };
}

test('SQLite has a write-ahead log and a disk, and no connections', async () => {
  const values = await watch(() => embedded)();
  expect(values).toMatchObject({
    waiting_writes: 3,
    'failed_writes_total disk_full': 2,
    last_failed_write_timestamp_seconds: 5,
    wal_bytes: 4096,
    disk_bytes: 100,
    disk_available_bytes: 40,
    'held connections': 4,
  });
  expect(Object.keys(values).filter((name) => name.startsWith('database_'))).toEqual([]);
});

test('PostgreSQL has connections, and no file', async () => {
  const values = await watch(() => shared)();
  expect(values).toMatchObject({
    database_connections_max: 10,
    database_connections_busy: 4,
    database_jobs_waiting: 1,
    database_connections_abandoned: 2,
    'database_errors_total timeout': 6,
  });
  expect(values).not.toHaveProperty('wal_bytes');
  expect(values).not.toHaveProperty('disk_bytes');
});

test('what a store no longer measures is 0', async () => {
  let now: StoreMeasures = { ...embedded, ...shared, walBytes: 1 };
  const read = watch(() => now);
  await read();
  now = common;
  expect(await read()).toMatchObject({
    wal_bytes: 0,
    disk_bytes: 0,
    database_connections_busy: 0,
  });
});
