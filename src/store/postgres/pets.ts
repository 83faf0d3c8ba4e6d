/** Reads pets as JSON text. Adds them in batches: those that arrive in one event loop turn, or during a batch, share a round trip. */
import { retryWindowMs } from '../../core/idempotency.ts';
import { limits } from '../../core/limits.ts';
import { type Addition, type PetJson, type PetPage, type PetQuery, petJson } from '../../core/pets.ts';
import type { AddedPet } from '../engine.ts';
import { unavailable } from '../store.ts';
import type { Pool } from './pool.ts';
import { numberArray, textArray } from './sql.ts';

/** The driver returns bigint columns as decimal text. */
interface PetRow {
  id: string;
  name: string;
  category_id: string;
  status: string;
}

const toJson = ({ id, name, category_id, status }: PetRow) => petJson(id, name, category_id, status);

export async function listPets(pool: Pool, { limit, status, after }: PetQuery): Promise<PetPage> {
  // One extra row shows whether a next page exists.
  const rows = await pool.read<PetRow[]>((sql) =>
    status
      ? // With status = …, the planner may scan the primary key and filter by status; for a rare status that reads the whole table.
        sql`SELECT id, name, category_id, status FROM pet WHERE (status, id) > (${status}, ${String(after)}) AND status <= ${status} ORDER BY status, id LIMIT ${limit + 1}`
      : sql`SELECT id, name, category_id, status FROM pet WHERE id > ${String(after)} ORDER BY id LIMIT ${limit + 1}`,
  );
  if (rows.length <= limit) return { pets: rows.map(toJson), next: undefined };
  rows.pop();
  return { pets: rows.map(toJson), next: BigInt((rows.at(-1) as PetRow).id) };
}

export async function findPet(pool: Pool, id: bigint): Promise<PetJson | undefined> {
  const [row] = await pool.read<PetRow[]>(
    (sql) => sql`SELECT id, name, category_id, status FROM pet WHERE id = ${String(id)}`,
  );
  return row && toJson(row);
}

interface Waiting extends AddedPet {
  until: number;
  resolve: (addition: Addition) => void;
  reject: (error: unknown) => void;
}

export interface Adder {
  /** Resolves after the pet's commit. Rejects with ApiError `service_unavailable`. */
  add(pet: AddedPet): Promise<Addition>;
  /** The number of pets that wait for the next batch. */
  waiting(): number;
  /** Resolves when no pet is waiting or in flight. */
  close(): Promise<void>;
}

const maxBatch = 500;

/** `id`: of an animal that was added, now or before. */
interface AdditionRow {
  outcome: Addition['outcome'];
  id: string;
}

function addPets(pool: Pool, batch: Waiting[], withinMs: number): Promise<AdditionRow[]> {
  const names = textArray(batch.map(({ pet }) => pet.name));
  const categoryIds = numberArray(batch.map(({ pet }) => pet.categoryId));
  const statuses = textArray(batch.map(({ pet }) => pet.status));
  const accountIds = numberArray(batch.map(({ retry }) => retry?.accountId));
  const keys = textArray(batch.map(({ retry }) => retry?.key));
  const times = numberArray(batch.map(({ at }) => at));
  const keyIds = numberArray(batch.map(({ keyId }) => keyId));
  return pool.write(
    (sql) => sql`
      SELECT outcome, id FROM add_pets(${names}, ${categoryIds}, ${statuses}, ${accountIds}, ${keys}, ${times}, ${retryWindowMs}, ${keyIds})`,
    { withinMs, writes: batch.length },
  );
}

/**
 * Takes the next batch out of `waiting`. It ends before an idempotency key that it already contains: the next batch must see that key's
 * result.
 */
function takeBatch(waiting: Waiting[]): Waiting[] {
  const keys = new Set<string>();
  const now = performance.now();
  let end = 0;
  let late: boolean | undefined;
  for (const { retry, until } of waiting) {
    // A batch has the time that its first pet has left: late ones are rejected in a batch of their own.
    late ??= until <= now;
    if (end === maxBatch || until <= now !== late) break;
    const key = retry && `${retry.accountId} ${retry.key}`;
    if (key !== undefined && keys.has(key)) break;
    if (key !== undefined) keys.add(key);
    end += 1;
  }
  return waiting.splice(0, end);
}

function settle({ pet, resolve }: Waiting, { outcome, id }: AdditionRow): void {
  if (outcome !== 'added' && outcome !== 'replayed') resolve({ outcome });
  else resolve({ outcome, id: BigInt(id), pet: petJson(id, pet.name, pet.categoryId, pet.status) });
}

/** At most 10,000 pets wait; each is rejected `limits.statement` milliseconds after it was added. */
export function startAdder(pool: Pool): Adder {
  const waiting: Waiting[] = [];
  let sending = false;
  let scheduled = false;
  let drained: (() => void) | undefined;

  async function send(): Promise<void> {
    scheduled = false;
    if (sending) return;
    sending = true;
    for (let [first] = waiting; first; [first] = waiting) {
      const batch = takeBatch(waiting);
      try {
        const rows = await addPets(pool, batch, Math.max(0, first.until - performance.now()));
        for (const [index, row] of rows.entries()) {
          const added = batch[index];
          if (added) settle(added, row);
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    sending = false;
    drained?.();
  }

  return {
    add(added) {
      if (waiting.length >= limits.waitingWrites)
        return Promise.reject(unavailable(new Error('too many writes are waiting')));
      if (!scheduled) setImmediate(send);
      scheduled = true;
      return new Promise((resolve, reject) => {
        waiting.push({ ...added, until: performance.now() + limits.statement, resolve, reject });
      });
    },
    waiting: () => waiting.length,
    async close() {
      if (waiting.length > 0 || sending) await new Promise<void>((resolve) => (drained = resolve));
    },
  };
}
