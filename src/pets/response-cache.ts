/** An optimisation: caches the responses to reads of pets while the data in the store has not changed. */
import { maxPage, type PetQuery, type Pets, type StoreState, statuses } from '../core/pets.ts';
import type { App } from '../http/operation.ts';
import type { Representation } from '../http/responses.ts';
import type { CachedReads, PetRead, PetReads } from './routes.ts';

/** Limit of one cache. Pages and single pets have separate caches, so that many of one kind cannot displace the other. */
const maxBytes = 8 * 1024 * 1024;

/** Estimated memory of an entry besides its body: the key, the headers and the cache's own structures. */
const entryBytes = 1000;

/** Limit of the remembered keys that were requested once. */
const maxSeenOnce = 10_000;

/** Interval between two sweeps. */
const sweepMs = 5000;

/** A number: V8 puts a string into its table of strings to look it up, which takes 3 % of a cached page. */
function pageKey({ limit, status, after }: PetQuery): number {
  const state = status === undefined ? 0 : 1 + statuses.indexOf(status);
  return (Number(after) * (1 + statuses.length) + state) * (1 + maxPage) + limit;
}

interface Entry {
  representation: Representation;
  /** Of the read that it was made from. */
  state: StoreState;
  bytes: number;
  /** Whether it was requested since the last sweep. */
  used: boolean;
}

/**
 * Caches a response when it is requested for the second time, while there is room. When the cache is full, a sweep drops the entries that
 * are no longer requested. An LRU cache would replace the oldest entry by the newest: if clients read through more pages than fit, it would
 * insert every page and never have a hit.
 */
export function createCache(isCurrent: Pets['isCurrent']) {
  const entries = new Map<number, Entry>();
  const seenOnce = new Set<number>();
  let bytes = 0;
  let hits = 0;
  let misses = 0;
  /** Whether an entry did not fit since the last sweep. */
  let full = false;

  function drop(key: number, entry: Entry): void {
    // Another request may have replaced it meanwhile.
    if (entries.get(key) !== entry) return;
    entries.delete(key);
    bytes -= entry.bytes;
  }

  function keep(key: number, { state, represent }: PetRead): Representation {
    const before = entries.get(key);
    // If many request one page at once on PostgreSQL, all of them read it before the first response is kept.
    if (before && before.state === state) return before.representation;
    const representation = represent();
    // A number that is no safe integer stands for several keys.
    if (before || !Number.isSafeInteger(key)) return representation;
    if (!seenOnce.delete(key)) {
      if (seenOnce.size < maxSeenOnce) seenOnce.add(key);
      return representation;
    }
    const size = (representation.found.body as string | Buffer).length + entryBytes;
    if (bytes + size > maxBytes) {
      full = true;
      return representation;
    }
    // A copy: if many of the objects of a function survive, V8 begins to allocate all of them among the old ones.
    const { etag, found } = representation;
    const kept = { etag, found: { ...found, headers: { ...found.headers } } };
    entries.set(key, { representation: kept, state, bytes: size, used: true });
    bytes += size;
    return representation;
  }

  return {
    /** Hits and misses since the start. */
    use: () => ({ hits, misses }),
    /** The response for `key`, from the cache or made from what `read` returns. */
    async get(key: number, read: () => Promise<PetRead>): Promise<Representation> {
      const entry = entries.get(key);
      if (entry) {
        if (await isCurrent(entry.state)) {
          hits += 1;
          entry.used = true;
          return entry.representation;
        }
        // It was requested before, so cache its replacement immediately.
        drop(key, entry);
        seenOnce.add(key);
      }
      misses += 1;
      return keep(key, await read());
    },
    /** Forgets the keys that were requested once. If the cache was full, also drops the entries not used since the last sweep. */
    sweep(): void {
      seenOnce.clear();
      for (const [key, entry] of entries) {
        if (entry.used) entry.used = false;
        else if (full) drop(key, entry);
      }
      full = false;
    },
  };
}

/** Caches what `reads` return. The reads reject as those do. */
export function cacheReads(app: App, reads: PetReads): CachedReads {
  const { metrics, store } = app;
  const pages = createCache(store.pets.isCurrent);
  const singlePets = createCache(store.pets.isCurrent);
  const timer = setInterval(() => {
    pages.sweep();
    singlePets.sweep();
  }, sweepMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  const sumOf = (what: 'hits' | 'misses') => () => pages.use()[what] + singlePets.use()[what];
  metrics.add('animal_store_cache_hits_total', 'Reads served from the response cache.', sumOf('hits'));
  metrics.add('animal_store_cache_misses_total', 'Reads served from the store.', sumOf('misses'));
  return {
    page: (query) => pages.get(pageKey(query), () => reads.page(query)),
    pet: (id) => singlePets.get(Number(id), () => reads.pet(id)),
  };
}
