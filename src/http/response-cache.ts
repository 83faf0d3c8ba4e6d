/** Responses to reads of animals, kept as bytes for as long as the store is the one they were read from. */
import type { FastifyInstance } from 'fastify';
import { ApiError } from '../errors.ts';
import type { PetPage, PetQuery, Pets, StoreState } from '../pets.ts';
import { pageLinks } from './paging.ts';
import { type Rendered, render } from './responses.ts';

export interface CacheUse {
  hits: number;
  misses: number;
}

/** Of pages, and of single animals: many of one kind must not keep out the other. */
const maxBytes = 8 * 1024 * 1024;

/** What an entry costs beside its body: the key, the headers and the cache's own lists. */
const entryBytes = 1000;

/** Names of what was asked for once. */
const maxAsked = 10_000;

/** The reads throw or reject with ApiError `service_unavailable` where the store cannot answer. */
export interface PetResponses {
  page(query: PetQuery): Promise<Rendered> | Rendered;
  /** Throws or rejects with ApiError `pet_not_found`. */
  animal(id: bigint): Promise<Rendered> | Rendered;
  use(): CacheUse;
}

interface Cache {
  /** How often a response was kept, and was not, since the start. */
  use(): CacheUse;
  /** The response under `key`, kept or made. */
  get(key: string, make: () => Made | Promise<Made>): Rendered | Promise<Rendered>;
  /** Forgets what was asked for once and, when something found no room, what nobody has asked for since the last sweep. */
  sweep(): void;
}

interface Made {
  rendered: Rendered;
  /** Whether it stays what it is while no animal is changed or removed, or added below the highest id. */
  settled: boolean;
}

interface Kept {
  rendered: Rendered;
  bytes: number;
  /** Whether it was asked for since the last sweep. */
  used: boolean;
  /** The state that it is valid in; undefined: any of this revision. */
  state: StoreState | undefined;
}

function then<From, To>(value: From | Promise<From>, next: (value: From) => To): To | Promise<To> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** `base`: what the addresses in responses start with. */
export function createPetResponses(app: FastifyInstance, pets: Pets, base: string): PetResponses {
  const state = pets.state && (() => (pets as Required<Pets>).state());
  const pages = createCache(state);
  const animals = createCache(state);
  const timer = setInterval(() => {
    pages.sweep();
    animals.sweep();
  }, sweepMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));

  function makePage(query: PetQuery, { pets: found, next }: PetPage): Made {
    const rendered = render(`[${found.join()}]`, { link: pageLinks(base, query, next) });
    // Ids are given in the order of commits: a page that has a next one is full for good.
    return { rendered, settled: next !== undefined };
  }

  function makeAnimal(found: string | undefined): Made {
    if (found === undefined) throw new ApiError('pet_not_found');
    return { rendered: render(found), settled: true };
  }

  return {
    use() {
      const { hits, misses } = pages.use();
      const { hits: animalHits, misses: animalMisses } = animals.use();
      return { hits: hits + animalHits, misses: misses + animalMisses };
    },
    page: (query) =>
      pages.get(`${query.limit} ${query.status} ${query.after}`, () =>
        then(pets.list(query), (page) => makePage(query, page)),
      ),
    animal: (id) => animals.get(String(id), () => then(pets.find(id), makeAnimal)),
  };
}

/** How often what nobody asked for meanwhile is forgotten. */
const sweepMs = 5000;

/**
 * Keeps what is asked for a second time, as long as there is room. When there is none, what is not asked for any more is dropped. To drop the oldest for the
 * newest, as an LRU does, would keep nothing of a walk that is longer than the cache, and pay for each page.
 * `state` is read before the store is, so that a response may be newer than the state it is kept under but never older. Without it
 * nothing is kept.
 */
export function createCache(state: (() => StoreState) | undefined): Cache {
  const kept = new Map<string, Kept>();
  const asked = new Set<string>();
  let bytes = 0;
  let current: StoreState | undefined;
  let hits = 0;
  let misses = 0;
  /** Whether something found no room since the last sweep. */
  let crowded = false;

  function drop(key: string, { bytes: size }: Kept): void {
    kept.delete(key);
    bytes -= size;
  }

  function clear(): void {
    kept.clear();
    asked.clear();
    bytes = 0;
  }

  function keep(key: string, { rendered, settled }: Made, read: StoreState): Rendered {
    // Another request may have found a later state meanwhile.
    if (read !== current) return rendered;
    if (!asked.delete(key)) {
      if (asked.size < maxAsked) asked.add(key);
      return rendered;
    }
    const size = rendered.body.length + entryBytes;
    if (bytes + size > maxBytes) {
      crowded = true;
      return rendered;
    }
    kept.set(key, { rendered, bytes: size, used: true, state: settled ? undefined : read });
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
      const found = kept.get(key);
      if (found) {
        if (found.state === undefined || found.state === read) {
          hits += 1;
          found.used = true;
          return found.rendered;
        }
        // It will be asked for again.
        drop(key, found);
        asked.add(key);
      }
      misses += 1;
      return then(make(), (made) => keep(key, made, read));
    },
    sweep() {
      asked.clear();
      for (const [key, one] of kept) {
        if (one.used) one.used = false;
        else if (crowded) drop(key, one);
      }
      crowded = false;
    },
  };
}
