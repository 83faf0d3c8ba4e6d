/** Reads pets as JSON text. Adds them in batches: those that arrive in one event loop turn, or during a batch, share a round trip. */
import { retryWindowMs } from '../../core/idempotency.ts';
import { limits } from '../../core/limits.ts';
import {
  type Addition,
  type FoundPet,
  idOf,
  maxPage,
  type PetJson,
  type PetPage,
  type PetQuery,
  petJson,
} from '../../core/pets.ts';
import type { AddedPet } from '../engine.ts';
import { raw } from '../steps.ts';
import { unavailable } from '../store.ts';
import type { Pool } from './pool.ts';
import type { Reads } from './reads.ts';
import { arrayOf } from './sql.ts';

/** The same text as `petJson`. Rows that are older than the column have none. */
const json = raw('coalesce(json, pet_json(id, name, category_id, status)) AS json');

/** The planner does not know the LIMIT of a read, so another one tells it that a page is short. */
const longest = raw(`LIMIT ${maxPage + 1}`);

/** A line for each animal: JSON has line breaks only between its tokens, and format() adds none. */
const joined = raw(`string_agg(json, E'\\n')`);

export async function listPets(reads: Reads, { limit, status, after }: PetQuery, begun?: number): Promise<PetPage> {
  // One extra row shows whether a next page exists.
  const rows = limit + 1;
  const find = reads.find(rows, begun);
  const { text, state } = await (status
    ? // With status = …, the planner may scan the primary key and filter by status; for a rare status that reads the whole table.
      find`
        SELECT ${joined} FROM (
          SELECT json FROM (
            SELECT ${json} FROM pet WHERE (status, id) > (${status}, ${after}) AND status <= ${status} ORDER BY status, id ${longest}
          ) AS longest LIMIT ${rows}
        ) AS page`
    : find`
        SELECT ${joined} FROM (
          SELECT json FROM (SELECT ${json} FROM pet WHERE id > ${after} ORDER BY id ${longest}) AS longest LIMIT ${rows}
        ) AS page`);
  const pets = text === '' ? [] : text.split('\n');
  if (pets.length < rows) return { pets, next: undefined, state };
  pets.pop();
  return { pets, next: idOf(pets.at(-1) as PetJson), state };
}

export async function findPet(reads: Reads, id: bigint, begun?: number): Promise<FoundPet> {
  const { text, state } = await reads.find(1, begun)`SELECT ${json} FROM pet WHERE id = ${id}`;
  return { pet: text === '' ? undefined : text, state };
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
  const names = arrayOf(batch.map(({ pet }) => pet.name));
  const categoryIds = arrayOf(batch.map(({ pet }) => pet.categoryId));
  const statuses = arrayOf(batch.map(({ pet }) => pet.status));
  const accountIds = arrayOf(batch.map(({ retry }) => retry?.accountId));
  const keys = arrayOf(batch.map(({ retry }) => retry?.key));
  const times = arrayOf(batch.map(({ at }) => at));
  const keyIds = arrayOf(batch.map(({ keyId }) => keyId));
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
