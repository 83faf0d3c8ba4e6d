/** Caches the rendered responses to reads of pets for as long as the data in the store has not changed. */
import { ApiError } from '../core/errors.ts';
import { maxPage, type PetPage, type PetQuery, type StoreState, statuses } from '../core/pets.ts';
import type { App } from '../http/operation.ts';
import { type Rendered, render } from '../http/responses.ts';
import { pageLinks } from './paging.ts';

/** Limit of one cache. Pages and single pets have separate caches, so that many of one kind cannot displace the other. */
const maxBytes = 8 * 1024 * 1024;

/** Estimated memory of an entry besides its body: the key, the headers and the cache's own structures. */
const entryBytes = 1000;

/** Limit of the remembered keys that were requested once. */
const maxSeenOnce = 10_000;

export type PetResponses = ReturnType<typeof createPetResponses>;

/** A number: V8 puts a string into its table of strings to look it up, which takes 3 % of a cached page. */
function pageKey({ limit, status, after }: PetQuery): number {
  const state = status === undefined ? 0 : 1 + statuses.indexOf(status);
  return (Number(after) * (1 + statuses.length) + state) * (1 + maxPage) + limit;
}

type Make = () => Made | Promise<Made>;

interface Made {
  rendered: Rendered;
  /** Whether it stays valid until a pet is changed or removed, or added below the highest id. */
  settled: boolean;
  /** What the store was when it was read for this response. */
  state: StoreState;
}

const made = Symbol('made');

interface Entry extends Made {
  bytes: number;
  /** Whether it was requested since the last sweep. */
  used: boolean;
}

function then<From, To>(value: From | Promise<From>, next: (value: From) => To | Promise<To>): To | Promise<To> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** The reads throw or reject with ApiError `service_unavailable` if the store cannot be read. */
export function createPetResponses(app: App) {
  const { base, metrics, store } = app;
  const { pets } = store;
  const pages = createCache(pets.state);
  const singlePets = createCache(pets.state);
  const timer = setInterval(() => {
    pages.sweep();
    singlePets.sweep();
  }, sweepMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  const sumOf = (what: 'hits' | 'misses') => () => pages.use()[what] + singlePets.use()[what];
  metrics.add('animal_store_cache_hits_total', 'Reads served from the response cache.', sumOf('hits'));
  metrics.add('animal_store_cache_misses_total', 'Reads served from the store.', sumOf('misses'));

  return {
    page: (query: PetQuery) =>
      pages.get(pageKey(query), () =>
        then(pets.list(query), (found: PetPage & { [made]?: Made }) => {
          const { next, state } = found;
          // On PostgreSQL, all that ask for one page in one statement get the same object.
          found[made] ??= {
            rendered: render(`[${found.pets.join()}]`, { link: pageLinks(base, query, next), next }),
            // Ids are assigned in commit order: no pet can be added to a page that has a next page.
            settled: next !== undefined,
            state,
          };
          return found[made];
        }),
      ),
    /** Throws or rejects with ApiError `pet_not_found`. */
    pet: (id: bigint) =>
      singlePets.get(Number(id), () =>
        then(pets.find(id), ({ pet, state }) => {
          if (pet === undefined) throw new ApiError('pet_not_found');
          return { rendered: render(pet), settled: true, state };
        }),
      ),
  };
}

/** Interval between two sweeps. */
const sweepMs = 5000;

/**
 * Caches a response when it is requested for the second time, while there is room. When the cache is full, a sweep drops the entries that
 * are no longer requested. An LRU cache would replace the oldest entry by the newest: if clients read through more pages than fit, it would
 * insert every page and never have a hit.
 * `state` returns what the store is now. An entry is valid if that does not differ from what it was when the entry was made.
 */
export function createCache(state: () => StoreState | Promise<StoreState>) {
  const entries = new Map<number, Entry>();
  const seenOnce = new Set<number>();
  let bytes = 0;
  /** Of all entries. */
  let revision: StoreState['revision'] | undefined;
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

  function clear(): void {
    entries.clear();
    seenOnce.clear();
    bytes = 0;
  }

  function keep(key: number, made: Made): Rendered {
    const { rendered } = made;
    if (made.state.revision !== revision) clear();
    revision = made.state.revision;
    // A number that is no safe integer stands for several keys.
    if (entries.has(key) || !Number.isSafeInteger(key)) return rendered;
    if (!seenOnce.delete(key)) {
      if (seenOnce.size < maxSeenOnce) seenOnce.add(key);
      return rendered;
    }
    const size = rendered.body.length + entryBytes;
    if (bytes + size > maxBytes) {
      full = true;
      return rendered;
    }
    entries.set(key, { ...made, bytes: size, used: true });
    bytes += size;
    return rendered;
  }

  function miss(key: number, make: Make): Rendered | Promise<Rendered> {
    misses += 1;
    return then(make(), (made) => keep(key, made));
  }

  return {
    /** Hits and misses since the start. */
    use: () => ({ hits, misses }),
    /** The response for `key`, from the cache or from `make`. */
    get(key: number, make: Make): Rendered | Promise<Rendered> {
      const entry = entries.get(key);
      if (!entry) return miss(key, make);
      const { state: read, settled } = entry;
      return then(state(), (now) => {
        if (read.revision === now.revision && (settled || read.version === now.version)) {
          hits += 1;
          entry.used = true;
          return entry.rendered;
        }
        // It was requested before, so cache its replacement immediately.
        drop(key, entry);
        seenOnce.add(key);
        return miss(key, make);
      });
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
