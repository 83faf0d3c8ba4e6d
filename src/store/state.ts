/** The state of the pets that a read belongs to, and what is made of a read with it: for both engines. */
import type { FoundPet, PetJson, PetPage, StoreState } from '../core/pets.ts';

/** No version is equal to a revision. */
export interface State {
  /** Changes with every change of the pets. */
  version: StoreState;
  /** Changes only when a pet is changed, removed, or added below the highest id. */
  revision: StoreState;
}

export const isStateOf = ({ version, revision }: State, read: StoreState): boolean =>
  read === version || read === revision;

/** A pet's JSON starts with its id. Ids are below 2^53, so parsing as a number is exact. */
function idOf(pet: PetJson): bigint {
  return BigInt(Number.parseInt(pet.slice('{"id":'.length), 10));
}

/** A page of `limit` pets. `pets`: those from its first on; one more than `limit` if another page follows. */
export function pageOf(pets: PetJson[], limit: number, { version, revision }: State): PetPage {
  if (pets.length <= limit) return { pets, next: undefined, state: version };
  pets.pop();
  // Ids are assigned in commit order: no pet can be added to a page that has a next page.
  return { pets, next: idOf(pets.at(-1) as PetJson), state: revision };
}

export function foundOf(pet: PetJson | undefined, { version, revision }: State): FoundPet {
  return { pet, state: pet === undefined ? version : revision };
}
