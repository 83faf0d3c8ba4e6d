/** Metrics that are read from the state of the server at each scrape. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { PoolMeasures, StoreMeasures } from '../core/measures.ts';
import { type PlaceName, placeNames } from './exchange-places.ts';

/** How often a cache had the response. */
export interface CacheUse {
  hits: number;
  misses: number;
}

const takenNames = [...placeNames, 'connections', 'pipelined'] as const;

export interface Sources {
  /** A metric whose value is undefined is left out: each engine has some that the other lacks. */
  store: () => StoreMeasures;
  pages: () => CacheUse;
  /** Places taken by requests and connections. */
  taken: () => Record<PlaceName | (typeof takenNames)[number], number>;
}

export type Meters = ReturnType<typeof metersOf>;

/** Returns functions that add a metric to `registry`. At each scrape, its value is what `read` returns. */
export function metersOf(registry: Registry) {
  const registers = [registry];
  return {
    gauge(name: string, help: string, read: () => number): void {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    },

    counter(name: string, help: string, read: () => number): void {
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset();
          this.inc(read());
        },
      });
    },

    /** One series for each member of what `read` returns. The member's name is the value of `label`. */
    counters(name: string, help: string, label: string, read: () => Readonly<Record<string, number>>): void {
      new Counter({
        name,
        help,
        labelNames: [label],
        registers,
        collect() {
          this.reset();
          for (const [value, count] of Object.entries(read())) this.inc({ [label]: value }, count);
        },
      });
    },
  };
}

export function watchPlaces(registry: Registry, taken: Sources['taken']): void {
  new Gauge({
    name: 'animal_store_held',
    help: 'Places taken now: requests (requests), requests that the store is working on (work), request bodies arriving (bodies), response bytes that clients have not read (unread_bytes), connections (connections), queued pipelined requests (pipelined).',
    labelNames: ['what'] as const,
    registers: [registry],
    collect() {
      const now = taken();
      for (const what of takenNames) this.set({ what }, now[what]);
    },
  });
}

export function watchStore({ gauge, counters }: Meters, store: Sources['store']): void {
  const { walBytes, disk } = store();
  gauge('animal_store_waiting_writes', 'Writes waiting for their commit.', () => store().waitingWrites);
  if (walBytes !== undefined) {
    gauge('animal_store_wal_bytes', 'Write-ahead log (WAL) size in bytes.', () => store().walBytes ?? 0);
  }
  counters(
    'animal_store_failed_writes_total',
    'Writes that the store could not commit, by reason.',
    'reason',
    () => store().failedWrites,
  );
  gauge(
    'animal_store_last_failed_write_timestamp_seconds',
    'When the store last failed to commit a write, in seconds since 1970; 0 if it never has since the start.',
    () => store().lastFailedWriteAt / 1000,
  );
  if (disk !== undefined) {
    const read = (what: 'size' | 'available') => () => store().disk?.[what] ?? 0;
    gauge('animal_store_disk_bytes', 'Size of the file system of the store.', read('size'));
    gauge('animal_store_disk_available_bytes', 'Room left on it for the server.', read('available'));
  }
}

export function watchPool({ gauge, counter, counters }: Meters, store: Sources['store']): void {
  const read = (what: Exclude<keyof PoolMeasures, 'errors'>) => () => store().pool?.[what] ?? 0;
  gauge('animal_store_database_connections_max', 'Most connections to the database.', read('limit'));
  gauge('animal_store_database_connections_busy', 'Connections to the database in use.', read('busy'));
  gauge('animal_store_database_jobs_waiting', 'Jobs that wait for a connection.', read('waiting'));
  gauge(
    'animal_store_database_connections_abandoned',
    'Connections given up because a statement passed its deadline, which the database has not let go yet.',
    read('abandoned'),
  );
  counter(
    'animal_store_database_connections_abandoned_total',
    'Connections given up because a statement passed its deadline.',
    read('abandonedTotal'),
  );
  counters(
    'animal_store_database_errors_total',
    'Errors of the database, by SQLSTATE class; besides, connection: lost or not opened; timeout: no answer before the deadline; standby: a commit that the standby may lack; other: any other class.',
    'class',
    () => store().pool?.errors ?? {},
  );
}

/** In bytes. `limit`: 0 if there is none. */
export interface Memory {
  used: () => number;
  limit: number;
}

export function watchProcess({ gauge }: Meters, memory: Memory = { used: () => 0, limit: 0 }): void {
  gauge('animal_store_memory_bytes', 'Memory that the kernel cannot take back.', memory.used);
  gauge('animal_store_memory_limit_bytes', 'Limit of the memory; 0 if there is none.', () => memory.limit);
}

export function watchCache({ counter }: Meters, pages: Sources['pages']): void {
  counter('animal_store_cache_hits_total', 'Reads served from the response cache.', () => pages().hits);
  counter('animal_store_cache_misses_total', 'Reads served from the store.', () => pages().misses);
}
