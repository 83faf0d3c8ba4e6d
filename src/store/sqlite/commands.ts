/** All writes to the SQLite store, as synchronous functions that run inside the writer's open transaction. */
import type Database from 'better-sqlite3';
import type { KeyRejection } from '../../core/accounts.ts';
import { type Retry, retryWindowMs } from '../../core/idempotency.ts';
import type { PetJson, PetStatus } from '../../core/pets.ts';
import { rejectionOfKey } from '../commands/keys.ts';
import { type CommandName, type Input, stepsOf } from '../commands.ts';
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

export type PetOutcome =
  | { outcome: 'added'; id: number }
  | { outcome: 'replayed'; id: number; pet: PetJson }
  | { outcome: 'reused' | KeyRejection };

/** A command, with its name; `addPet` is the only one that is not in the table of commands. */
export type Write =
  | [name: 'addPet', input: NewPetRow]
  | { [Name in CommandName]: [name: Name, input: Input<Name>] }[CommandName];

/** Commands are prepared when they first run. Their tables are checked before: a store that lacks one must not accept any write. */
const tables = 'account account_event api_key counted_attempt message one_time_link rotated_key session'.split(' ');

/** Prepares the writes on the writer's connection. They throw only SQLite errors. */
export function prepareCommands(connection: Database.Database): { run: (write: Write) => unknown; begin: () => void } {
  for (const table of tables) connection.prepare(`SELECT 1 FROM ${table}`);
  const addPet = prepareAddPet(connection);
  const runSteps = createRunner(connection);
  /** What rejectionOfKey has returned in this transaction, by the ids of keys and their time. */
  const checked = new Map<number, { at: number; rejection: KeyRejection | undefined }>();

  function checkKey(keyId: number, at: number): KeyRejection | undefined {
    const known = checked.get(keyId);
    if (known?.at === at) return known.rejection;
    const rejection = runSteps(rejectionOfKey(keyId, at));
    checked.set(keyId, { at, rejection });
    return rejection;
  }

  return {
    /** Call it when a transaction begins. */
    begin: () => checked.clear(),

    run([name, input]) {
      if (name === 'addPet') {
        const rejection = input.keyId === undefined ? undefined : checkKey(input.keyId, input.at);
        return rejection ? { outcome: rejection } : addPet(input);
      }
      checked.clear();
      return runSteps(stepsOf(name, input));
    },
  };
}

function prepareAddPet(connection: Database.Database): (pet: NewPetRow) => PetOutcome {
  // Every integer read here is below 2^53.
  const sql = <Parameters extends unknown[], Row = unknown>(text: string) =>
    connection.prepare<Parameters, Row>(text).safeIntegers(false);

  const insertPet = sql<[string, bigint, string]>('INSERT INTO pet (name, category_id, status) VALUES (?, ?, ?)');
  const findRetry = sql<[string, bigint, string, number, string, number], { id: number; pet: PetJson; same: number }>(
    `SELECT pet.id, json AS pet, name = ? AND category_id = ? AND status = ? AS same
     FROM idempotency JOIN pet ON pet.id = pet_id
     WHERE account_id = ? AND operation = 'createPet' AND key = ? AND created_at > ?`,
  );
  const upsertRetry = sql<[number, string, number, number]>(
    `INSERT INTO idempotency (account_id, operation, key, pet_id, created_at) VALUES (?, 'createPet', ?, ?, ?)
     ON CONFLICT DO UPDATE SET pet_id = excluded.pet_id, created_at = excluded.created_at`,
  );
  const forgetRetries = sql<[number]>(
    `DELETE FROM idempotency WHERE (account_id, operation, key) IN
       (SELECT account_id, operation, key FROM idempotency WHERE created_at <= ? ORDER BY created_at LIMIT 10)`,
  );

  return ({ name, categoryId, status, retry, at }) => {
    const category = BigInt(categoryId);
    // An idempotency key first used at or before this time counts as new.
    const forgottenAt = at - retryWindowMs;
    if (retry) {
      // No operation changes a pet, so its row still equals the first request's body.
      const known = findRetry.get(name, category, status, retry.accountId, retry.key, forgottenAt);
      if (known) return known.same ? { outcome: 'replayed', id: known.id, pet: known.pet } : { outcome: 'reused' };
    }
    const id = Number(insertPet.run(name, category, status).lastInsertRowid);
    if (retry) {
      forgetRetries.run(forgottenAt);
      upsertRetry.run(retry.accountId, retry.key, id, at);
    }
    return { outcome: 'added', id };
  };
}
