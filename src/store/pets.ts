/** Pets: what the store offers of them. Reads and commands that both engines run are added here; `engine.pets` has those that must be fast. */
import type { Pets } from '../core/pets.ts';
import type { Engine } from './engine.ts';
import { type Steps, sql } from './steps.ts';

/** `at` returns the current time in milliseconds. */
export function openPets(engine: Engine, at: () => number): Pets {
  return {
    ...engine.pets,
    lastId: () => engine.read(findLastId, true),
    count: (most) => engine.read(() => countPets(most), true),
    add: (pet, retry, keyId) => engine.pets.add({ pet, retry, keyId, at: at() }),
  };
}

function* findLastId(): Steps<number> {
  const [row] = yield* sql<{ id: number | null }>`SELECT max(id) AS id FROM pet`;
  return row?.id ?? 0;
}

function* countPets(most: number): Steps<number> {
  const [row] = yield* sql<{ count: number }>`
    SELECT count(*) AS count FROM (SELECT 1 FROM pet LIMIT ${most}) AS counted`;
  return row?.count ?? 0;
}

/** Ids named at most in one sentence. */
export const maxIds = 5;

/** The problem of `count` animals whose stored JSON differs from their other columns, if there are any. `ids`: the first `maxIds` of them. */
export function jsonFaultsOf(ids: readonly (bigint | string)[], count: number): string[] {
  if (count === 0) return [];
  const others = count > ids.length ? ` and ${count - ids.length} more` : '';
  return [`Rows of pet whose JSON differs from their columns: id ${ids.join(', ')}${others}.`];
}
