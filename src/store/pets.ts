/** Pets: what the store offers of them. Reads and commands that both engines run are added here; `engine.pets` has those that must be fast. */
import type { Pets } from '../core/pets.ts';
import type { Engine } from './engine.ts';

/** `at` returns the current time in milliseconds. */
export function openPets(engine: Engine, at: () => number): Pets {
  return {
    ...engine.pets,
    add: (pet, retry, keyId) => engine.pets.add({ pet, retry, keyId, at: at() }),
  };
}
