/** Pets: what the store offers of them. Reads and commands that both engines run are added here; `engine.pets` has those that must be fast. */
import type { Pets } from '../core/pets.ts';
import type { Engine } from './engine.ts';

export function openPets(engine: Engine): Pets {
  return {
    ...engine.pets,
  };
}
