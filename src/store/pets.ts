/** Pets: what the store offers of them. Reads and commands that both engines run are added here; `engine.pets` has those that must be fast. */
import type { Pets } from '../core/pets.ts';
import { type Engine, operator } from './engine.ts';

/** `at` returns the current time in milliseconds. */
export function openPets({ pets: fast }: Engine, at: () => number): Pets {
  return {
    ...fast,
    add: (pet, retry, by) => fast.add({ pet, retry, keyId: by?.keyId, at: at() }, by?.holder ?? operator),
  };
}
