/** All writes to the SQLite store, as synchronous functions that run inside the writer's open transaction. */
import type Database from 'better-sqlite3';
import type { KeyRejection } from '../../core/accounts.ts';
import { type Retry, retryKeptMs, retryWindowMs } from '../../core/idempotency.ts';
import type { PetJson, PetStatus } from '../../core/pets.ts';
import { rejectionOfKey } from '../commands/keys.ts';
import { type CommandName, type Input, stepsOf } from '../commands.ts';
import { type Steps, sql, sweep } from '../steps.ts';
import { createRunner } from './connection.ts';

/** Inputs are JSON, because they cross between threads: times are milliseconds, and integers that may exceed 2^53 are decimal text. */
export interface NewPetRow {
  name: string;
  categoryId: string;
  status: PetStatus;
  retry?: Retry | undefined;
  /** The id of the API key that adds the pet; undefined: the operator. */
  keyId?: number | undefined;
  at: number;
}

/** The id of the added pet, or why none was added. */
export type PetOutcome =
  | number
  | { outcome: 'replayed'; id: number; pet: PetJson }
  | { outcome: 'reused' | KeyRejection };

/** A command, with its name; `addPet` is the only one that is not in the table of commands. */
export type Write =
  | [name: 'addPet', input: NewPetRow]
  | { [Name in CommandName]: [name: Name, input: Input<Name>] }[CommandName];

/** Pets that one statement inserts at most: SQLite holds their text in memory several times. */
const maxInserted = 100;

/**
 * Prepares the writes on the writer's connection. Returns a function that runs those of a transaction in their order; one statement inserts the
 * pets that follow each other. It throws only SQLite errors.
 */
export function prepareCommands(connection: Database.Database): (batch: readonly Write[]) => unknown[] {
  const runSteps = createRunner(connection);
  /** Why API keys are rejected in this transaction, by id and time. */
  const rejections = new Map<string, KeyRejection | undefined>();

  function checkKey({ keyId, at }: NewPetRow): KeyRejection | undefined {
    if (keyId === undefined) return undefined;
    const place = `${keyId} ${at}`;
    if (!rejections.has(place)) rejections.set(place, runSteps(rejectionOfKey(keyId, at)));
    return rejections.get(place);
  }

  return (batch) => {
    rejections.clear();
    const outputs: unknown[] = [];
    let pets: NewPetRow[] = [];
    /** The idempotency keys of `pets`. */
    const keys = new Set<string>();

    function insertCollected(): void {
      if (pets.length === 0) return;
      const first = runSteps(insertPets(pets));
      if (keys.size > 0) runSteps(keepRetries(pets, first));
      for (const index of pets.keys()) outputs.push(first + index);
      pets = [];
      keys.clear();
    }

    function add(pet: NewPetRow): void {
      const key = pet.retry && `${pet.retry.accountId} ${pet.retry.key}`;
      if (key !== undefined && keys.has(key)) insertCollected();
      const rejection = checkKey(pet);
      const outcome = rejection ? { outcome: rejection } : pet.retry && runSteps(findRetry(pet, pet.retry));
      if (outcome || pets.length === maxInserted) insertCollected();
      if (outcome) outputs.push(outcome);
      else {
        pets.push(pet);
        if (key !== undefined) keys.add(key);
      }
    }

    for (const [name, input] of batch) {
      if (name === 'addPet') add(input);
      else {
        insertCollected();
        rejections.clear();
        outputs.push(runSteps(stepsOf(name, input)));
      }
    }
    insertCollected();
    return outputs;
  };
}

/** Inserts pets with ids that follow each other, and returns the first. */
function* insertPets(pets: readonly NewPetRow[]): Steps<number> {
  // What AUTOINCREMENT would choose (https://sqlite.org/autoinc.html). It does not promise ids without gaps, nor their order in a statement.
  const [next] = yield* sql<{ id: number }>`
    SELECT 1 + max(coalesce((SELECT max(id) FROM pet), 0),
      coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'pet'), 0)) AS id`;
  const first = next?.id as number;
  // For each single statement, SQLite builds the list of statuses that its CHECK needs.
  yield* sql`
    INSERT INTO pet (id, name, category_id, status)
    SELECT ${first} + key, value ->> 'name', value ->> 'categoryId', value ->> 'status' FROM json_each(${JSON.stringify(pets)})`;
  return first;
}

/** What became of an earlier request with the idempotency key; undefined: there was none. */
function* findRetry(pet: NewPetRow, { accountId, key }: Retry): Steps<PetOutcome | undefined> {
  const { name, categoryId, status, at } = pet;
  // No operation changes a pet, so its row still equals the first request's body. A key that was first used before the window counts as new.
  // +, as in reader.ts: SQLite would recompile the statement for each key, which takes 10 µs.
  const [known] = yield* sql<{ id: number; pet: PetJson; same: number }>`
    SELECT pet.id, json AS pet, name = ${name} AND category_id = ${BigInt(categoryId)} AND status = ${status} AS same
    FROM idempotency JOIN pet ON pet.id = pet_id
    WHERE account_id = +${accountId} AND operation = 'createPet' AND key = +${key} AND created_at > +${at - retryWindowMs}`;
  if (!known) return undefined;
  return known.same ? { outcome: 'replayed', id: known.id, pet: known.pet } : { outcome: 'reused' };
}

/** Keeps the idempotency keys of pets whose ids begin at `first`, and deletes ten for each that are kept no longer. */
function* keepRetries(pets: readonly NewPetRow[], first: number): Steps<void> {
  const kept = pets.flatMap(({ retry, at }, index) => (retry ? [{ ...retry, at, id: first + index }] : []));
  const earliest = Math.min(...kept.map(({ at }) => at));
  yield* sweep('idempotency', 'created_at', earliest - retryKeptMs, 10 * kept.length);
  for (const { accountId, key, id, at } of kept)
    yield* sql`
      INSERT INTO idempotency (account_id, operation, key, pet_id, created_at) VALUES (${accountId}, 'createPet', ${key}, ${id}, ${at})
      ON CONFLICT DO UPDATE SET pet_id = excluded.pet_id, created_at = excluded.created_at`;
}
