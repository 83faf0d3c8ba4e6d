/** Adds pets in batches: those that arrive in one event loop turn, or while a batch is in flight, share one round trip and commit. */

import { retryWindowMs } from '../../core/idempotency.ts';
import { limits } from '../../core/limits.ts';
import { type Addition, petJson } from '../../core/pets.ts';
import type { AddedPet } from '../engine.ts';
import { unavailable } from '../store.ts';
import type { Pool } from './pool.ts';
import { numberArray, textArray } from './sql.ts';

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

/** At most 10,000 pets wait; each is rejected `limits.statement` milliseconds after it was added. */
export function startAdder(pool: Pool): Adder {
  const waiting: Waiting[] = [];
  let sending = false;
  let scheduled = false;
  let drained: (() => void) | undefined;

  /** Takes the next batch. It ends before an idempotency key that it already contains: the next batch must see that key's result. */
  function take(): Waiting[] {
    const keys = new Set<string>();
    const now = performance.now();
    const late = (waiting[0] as Waiting).until <= now;
    let end = 0;
    for (; end < waiting.length && end < maxBatch; end++) {
      const { retry, until } = waiting[end] as Waiting;
      // Those that have no time left are refused together, not the others with them.
      if (until <= now !== late) break;
      const key = retry && `${retry.accountId} ${retry.key}`;
      if (key !== undefined && keys.has(key)) break;
      if (key !== undefined) keys.add(key);
    }
    return waiting.splice(0, end);
  }

  async function send(): Promise<void> {
    scheduled = false;
    if (sending) return;
    sending = true;
    while (waiting.length > 0) {
      const batch = take();
      try {
        const [first] = batch as [Waiting];
        const rows = await addPets(pool, batch, Math.max(0, first.until - performance.now()));
        for (const [index, row] of rows.entries()) settle(batch[index] as Waiting, row);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    sending = false;
    drained?.();
  }

  function settle({ pet, resolve }: Waiting, { outcome, id }: AdditionRow): void {
    if (outcome !== 'added' && outcome !== 'replayed') resolve({ outcome });
    else resolve({ outcome, id: BigInt(id), pet: petJson(id, pet.name, pet.categoryId, pet.status) });
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
