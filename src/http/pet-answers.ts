/** The answers to reads of animals, rendered once for each version of the store. */
import { Failure } from '../errors.ts';
import type { PetQuery, Pets } from '../pets.ts';
import { pageLinks } from './paging.ts';
import { type CacheUse, createRenderedCache, type Rendered, render } from './rendered.ts';

/** The reads reject with Failure `service_unavailable` where the store cannot answer. */
export interface PetAnswers {
  page(query: PetQuery): Promise<Rendered> | Rendered;
  /** Rejects with Failure `pet_not_found`. */
  animal(id: bigint): Promise<Rendered> | Rendered;
  use(): CacheUse;
}

/** `base`: what the addresses in answers start with. */
export function createPetAnswers(pets: Pets, base: string): PetAnswers {
  const kept = createRenderedCache(pets.version && (() => (pets as Required<Pets>).version()));
  return {
    use: kept.use,
    page: (query) =>
      kept.get(`${query.limit} ${query.status} ${query.after}`, async () => {
        const { pets: found, next } = await pets.list(query);
        return render(`[${found.join()}]`, { link: pageLinks(base, query, next) });
      }),
    animal: (id) =>
      kept.get(String(id), async () => {
        const found = await pets.find(id);
        if (found === undefined) throw new Failure('pet_not_found');
        return render(found);
      }),
  };
}
