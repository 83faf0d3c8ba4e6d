/** Reads pets as JSON text, and keys. Adds pets in batches: those that arrive in three event loop turns, or during a batch, share a round trip. */
import { type Retry, retryKeptMs, retryWindowMs } from '../../core/idempotency.ts';
import {
  type Addition,
  maxPage,
  type NewPet,
  type PetJson,
  type PetPage,
  type PetQuery,
  petJson,
  type StoreState,
} from '../../core/pets.ts';
import { type KnownKeyRow, knownKeyColumns } from '../rows.ts';
import { foundOf, isStateOf, pageOf, type State } from '../state.ts';
import { raw } from '../steps.ts';
import { collectAdditions } from './additions.ts';
import type { Pool } from './pool.ts';
import { collectReads } from './reads.ts';

/**
 * The state is a text: the highest id, then the revision. The version is the whole text, because an addition raises the highest id. The revision also differs
 * between databases, and after a restart: only a restart, a promotion or a restored dump can give an id twice.
 */
const state = `(
  SELECT coalesce((SELECT max(id) FROM pet), 0) || ' ' || revision || ' ' || pg_relation_filenode('pet') || ' ' || pg_postmaster_start_time()
  FROM pet_revision)`;

/** The state is a row of the statement, and so of its snapshot. Ids and places begin with 1. */
const withState = raw(`SELECT 0::bigint AS id, ${state} AS text UNION ALL`);

/** The same text as `petJson`. Rows that are older than the column have none. */
export const json = 'coalesce(json, pet_json(id, name, category_id, pet.status)) AS json';

/**
 * A line for each animal: JSON has line breaks only between its tokens, and format() adds none. The planner does not know the rows that are asked
 * for, so the inner LIMIT tells it that a page is short.
 */
const page = (where: string, order: string) =>
  raw(`
  SELECT string_agg(json, E'\\n') FROM (
    SELECT json FROM (SELECT ${json} FROM pet WHERE ${where} ORDER BY ${order} LIMIT ${maxPage + 1}) AS longest LIMIT asked.rows
  ) AS page`);

const pageOfAll = page('id > asked.after', 'id');

// With pet.status = asked.status, the planner may scan the primary key and filter by status; for a rare status that reads the whole table.
const pageOfStatus = page(
  '(pet.status, id) > (asked.status, asked.after) AND pet.status <= asked.status',
  'pet.status, id',
);

/** No animal has this id. `isCurrent()` asks for it, and so shares the statement of the single animals. */
const stateId = 0n;

interface TextRow {
  id: number;
  text: string | null;
}

/** A text for each id or place that has one, and the state in which they were read. */
function textsOf(rows: TextRow[]): { texts: Map<number, string | null>; state: State } {
  const texts = new Map(rows.map(({ id, text }) => [id, text]));
  const text = texts.get(0);
  // The row is missing. NaN is equal to no state, not even to itself.
  if (!text) return { texts, state: { version: Number.NaN, revision: Number.NaN } };
  return { texts, state: { version: text, revision: text.slice(text.indexOf(' ') + 1) } };
}

/** Each read sees every commit that was acknowledged before it was asked for. */
export function createPetReads(pool: Pick<Pool, 'read'>) {
  const single = collectReads<bigint, { pet: PetJson | undefined; state: State }>({
    keyOf: String,
    async send(ids) {
      const rows = await pool.read(
        (connection) =>
          connection<TextRow[]>`${withState} SELECT id, ${raw(json)} FROM pet WHERE id = ANY (${ids}::bigint[])`,
      );
      const { texts, state: read } = textsOf(rows);
      return ids.map((id) => ({ pet: (id !== stateId && texts.get(Number(id))) || undefined, state: read }));
    },
  });

  // One extra row shows whether a next page exists.
  const rowsOf = ({ limit }: PetQuery) => limit + 1;
  const pages = collectReads<PetQuery, PetPage>({
    keyOf: ({ limit, status, after }) => `${limit} ${status} ${after}`,
    rowsOf,
    async send(queries) {
      const afters = queries.map(({ after }) => after);
      const statuses = queries.map(({ status }) => status);
      const rows = await pool.read(
        (connection) => connection<TextRow[]>`
          ${withState} SELECT n, CASE WHEN asked.status IS NULL THEN (${pageOfAll}) ELSE (${pageOfStatus}) END
          FROM unnest(${afters}::bigint[], ${queries.map(rowsOf)}::integer[], ${statuses}::text[])
            WITH ORDINALITY AS asked (after, rows, status, n)`,
      );
      const { texts, state: read } = textsOf(rows);
      return queries.map(({ limit }, place) => pageOf(texts.get(place + 1)?.split('\n') ?? [], limit, read));
    },
  });

  return {
    list: pages,
    async find(id: bigint) {
      const { pet, state: read } = await single(id);
      return foundOf(pet, read);
    },
    async isCurrent(read: StoreState) {
      const { state: now } = await single(stateId);
      return isStateOf(now, read);
    },
  };
}

/** Finds keys by the SHA-256 of their text. */
export function createKeyReads(pool: Pick<Pool, 'read'>) {
  return collectReads<Buffer, KnownKeyRow | undefined>({
    keyOf: (hash) => hash.toString('latin1'),
    async send(hashes) {
      const rows = await pool.read(
        (connection) => connection<(KnownKeyRow & { hash: string })[]>`
          SELECT encode(hash, 'hex') AS hash, ${raw(knownKeyColumns)} WHERE hash = ANY (${hashes}::bytea[])`,
      );
      const found = new Map(rows.map(({ hash, ...row }) => [hash, row]));
      return hashes.map((hash) => found.get(hash.toString('hex')));
    },
  });
}

/** `keyId`: the API key that adds the pet; undefined: the operator. `at`: the time in milliseconds. */
interface AddedPet {
  pet: NewPet;
  retry: Retry | undefined;
  keyId: number | undefined;
  at: number;
}

/** `id`: of an animal that was added, now or before. `exhausted`: no id is left for it. */
interface AdditionRow {
  outcome: Addition['outcome'] | 'exhausted';
  id: number;
}

/** Adds a batch of pets after the other. An answer comes after the commit. Undefined: no id is left for this pet. */
export function startAdder(pool: Pool) {
  return collectAdditions<AddedPet, Addition | undefined>({
    nameOf: ({ retry }) => retry && `${retry.accountId} ${retry.key}`,
    async send(batch, withinMs) {
      const rows = await pool.write(
        (connection) => connection<AdditionRow[]>`
          SELECT outcome, id FROM add_pets(
            ${batch.map(({ pet }) => pet.name)},
            ${batch.map(({ pet }) => pet.categoryId)},
            ${batch.map(({ pet }) => pet.status)},
            ${batch.map(({ retry }) => retry?.accountId)},
            ${batch.map(({ retry }) => retry?.key)},
            ${batch.map(({ at }) => at)},
            ${retryWindowMs},
            ${batch.map(({ keyId }) => keyId)},
            ${retryKeptMs}
          )`,
        { withinMs, writes: batch.length },
      );
      return rows.map(({ outcome, id }, place) => {
        if (outcome === 'exhausted') return undefined;
        if (outcome !== 'added' && outcome !== 'replayed') return { outcome };
        const { name, categoryId, status } = (batch[place] as AddedPet).pet;
        return { outcome, id: BigInt(id), pet: petJson(id, name, categoryId, status) };
      });
    },
  });
}
