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

/** Idempotency keys that one create deletes at most: more than it adds, so that they do not pile up. */
const swept = 10;

/** A command, with its name; `addPet` is the only one that is not in the table of commands. */
export type Write =
  | [name: 'addPet', input: NewPetRow]
  | { [Name in CommandName]: [name: Name, input: Input<Name>] }[CommandName];

/** Prepares the writes on the writer's connection. Returns a function that runs those of a transaction in their order. It throws only SQLite errors. */
export function prepareCommands(connection: Database.Database): (batch: readonly Write[]) => unknown[] {
  const runSteps = createRunner(connection);
  // AUTOINCREMENT gives no id twice, whatever became of its row (https://sqlite.org/autoinc.html). RETURNING would take 1.5 µs more.
  const insert = connection
    .prepare<[string, bigint, PetStatus]>('INSERT INTO pet (name, category_id, status) VALUES (?, ?, ?)')
    .safeIntegers(false);
  /** Why API keys are rejected in this transaction, by id and time: to look for a key takes half as long as to add a pet. */
  const rejections = new Map<string, KeyRejection | undefined>();

  function checkKey({ keyId, at }: NewPetRow): KeyRejection | undefined {
    if (keyId === undefined) return undefined;
    const place = `${keyId} ${at}`;
    if (!rejections.has(place)) rejections.set(place, runSteps(rejectionOfKey(keyId, at, 'pets:write')));
    return rejections.get(place);
  }

  function addPet(pet: NewPetRow): PetOutcome {
    const { name, categoryId, status, retry, at } = pet;
    const rejection = checkKey(pet);
    if (rejection) return { outcome: rejection };
    const earlier = retry && runSteps(findRetry(pet, retry));
    if (earlier) return earlier;
    const id = insert.run(name, BigInt(categoryId), status).lastInsertRowid as number;
    if (retry) runSteps(keepRetry(retry, id, at));
    return id;
  }

  return (batch) => {
    rejections.clear();
    return batch.map(([name, input]) => {
      if (name === 'addPet') return addPet(input);
      rejections.clear();
      return runSteps(stepsOf(name, input));
    });
  };
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

/** Keeps an idempotency key with the id of its pet, and deletes ten that are kept no longer. */
function* keepRetry({ accountId, key }: Retry, id: number, at: number): Steps<void> {
  yield* sweep('idempotency', 'created_at', at - retryKeptMs, swept);
  yield* sql`
    INSERT INTO idempotency (account_id, operation, key, pet_id, created_at) VALUES (${accountId}, 'createPet', ${key}, ${id}, ${at})
    ON CONFLICT DO UPDATE SET pet_id = excluded.pet_id, created_at = excluded.created_at`;
}
