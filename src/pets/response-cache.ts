/** Caches the rendered responses to reads of pets for as long as the data in the store has not changed. */
import type { FastifyInstance } from 'fastify';
import { ApiError } from '../core/errors.ts';
import type { PetPage, PetQuery, Pets, StoreState } from '../core/pets.ts';
import { type Rendered, render } from '../http/responses.ts';
import type { CacheUse } from '../http/state-metrics.ts';
import { pageLinks } from './paging.ts';

/** Limit of one cache. Pages and single pets have separate caches, so that many of one kind cannot displace the other. */
const maxBytes = 8 * 1024 * 1024;

/** Estimated memory of an entry besides its body: the key, the headers and the cache's own structures. */
const entryBytes = 1000;

/** Limit of the remembered keys that were requested once. */
const maxSeenOnce = 10_000;

/** The reads throw or reject with ApiError `service_unavailable` if the store cannot be read. */
export interface PetResponses {
  page(query: PetQuery): Promise<Rendered> | Rendered;
  /** Throws or rejects with ApiError `pet_not_found`. */
  pet(id: bigint): Promise<Rendered> | Rendered;
  use(): CacheUse;
}

interface Cache {
  /** Hits and misses since the start. */
  use(): CacheUse;
  /** The response for `key`, from the cache or from `make`. */
  get(key: string, make: () => Made | Promise<Made>): Rendered | Promise<Rendered>;
  /** Forgets the keys that were requested once. If the cache was full, also drops the entries not used since the last sweep. */
  sweep(): void;
}

interface Made {
  rendered: Rendered;
  /** Whether it stays valid until a pet is changed or removed, or added below the highest id. */
  settled: boolean;
}

interface Entry {
  rendered: Rendered;
  bytes: number;
  /** Whether it was requested since the last sweep. */
  used: boolean;
  /** The state in which it is valid. If undefined, it is valid in every state of the current revision. */
  state: StoreState | undefined;
}

function then<From, To>(value: From | Promise<From>, next: (value: From) => To): To | Promise<To> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** `base`: the start of the URLs in responses. */
export function createPetResponses(app: FastifyInstance, pets: Pets, base: string): PetResponses {
  const state = pets.state?.bind(pets);
  const pages = createCache(state);
  const singlePets = createCache(state);
  const timer = setInterval(() => {
    pages.sweep();
    singlePets.sweep();
  }, sweepMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));

  function makePage(query: PetQuery, { pets: found, next }: PetPage): Made {
    const rendered = render(`[${found.join()}]`, { link: pageLinks(base, query, next) });
    // Ids are assigned in commit order: no pet can be added to a page that has a next page.
    return { rendered, settled: next !== undefined };
  }

  function makePet(found: string | undefined): Made {
    if (found === undefined) throw new ApiError('pet_not_found');
    return { rendered: render(found), settled: true };
  }

  return {
    use() {
      const { hits, misses } = pages.use();
      const { hits: petHits, misses: petMisses } = singlePets.use();
      return { hits: hits + petHits, misses: misses + petMisses };
    },
    page: (query) =>
      pages.get(`${query.limit} ${query.status} ${query.after}`, () =>
        then(pets.list(query), (page) => makePage(query, page)),
      ),
    pet: (id) => singlePets.get(String(id), () => then(pets.find(id), makePet)),
  };
}

/** Interval between two sweeps. */
const sweepMs = 5000;

/**
 * Caches a response when it is requested for the second time, while there is room. When the cache is full, a sweep drops the entries that
 * are no longer requested. An LRU cache would replace the oldest entry by the newest: if clients read through more pages than fit, it would
 * insert every page and never have a hit.
 * `state` is read before the store is, so a response may be newer than the state it is stored under, but never older. Without `state`,
 * nothing is cached.
 */
export function createCache(state: (() => StoreState) | undefined): Cache {
  const entries = new Map<string, Entry>();
  const seenOnce = new Set<string>();
  let bytes = 0;
  let current: StoreState | undefined;
  let hits = 0;
  let misses = 0;
  /** Whether an entry did not fit since the last sweep. */
  let full = false;

  function drop(key: string, { bytes: size }: Entry): void {
    entries.delete(key);
    bytes -= size;
  }

  function clear(): void {
    entries.clear();
    seenOnce.clear();
    bytes = 0;
  }

  function keep(key: string, { rendered, settled }: Made, read: StoreState): Rendered {
    // Another request may have seen a newer state meanwhile.
    if (read !== current) return rendered;
    if (!seenOnce.delete(key)) {
      if (seenOnce.size < maxSeenOnce) seenOnce.add(key);
      return rendered;
    }
    const size = rendered.body.length + entryBytes;
    if (bytes + size > maxBytes) {
      full = true;
      return rendered;
    }
    entries.set(key, { rendered, bytes: size, used: true, state: settled ? undefined : read });
    bytes += size;
    return rendered;
  }

  return {
    use: () => ({ hits, misses }),
    get(key, make) {
      if (!state) {
        misses += 1;
        return then(make(), ({ rendered }) => rendered);
      }
      const read = state();
      if (read !== current) {
        if (read.revision !== current?.revision) clear();
        current = read;
      }
      const entry = entries.get(key);
      if (entry) {
        if (entry.state === undefined || entry.state === read) {
          hits += 1;
          entry.used = true;
          return entry.rendered;
        }
        // It was requested before, so cache its replacement immediately.
        drop(key, entry);
        seenOnce.add(key);
      }
      misses += 1;
      return then(make(), (made) => keep(key, made, read));
    },
    sweep() {
      seenOnce.clear();
      for (const [key, entry] of entries) {
        if (entry.used) entry.used = false;
        else if (full) drop(key, entry);
      }
      full = false;
    },
  };
}
