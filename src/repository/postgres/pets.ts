/** The reading of animals from PostgreSQL, and their JSON. */
import { type PetJson, type PetPage, type PetQuery, petJson } from '../../pets.ts';
import type { Pool } from './pool.ts';

/** Integers come as their decimals. */
interface PetRow {
  id: string;
  name: string;
  category_id: string;
  status: string;
}

const toJson = ({ id, name, category_id, status }: PetRow) => petJson(id, name, category_id, status);

export async function listPets(pool: Pool, { limit, status, after }: PetQuery): Promise<PetPage> {
  // One row more than asked for tells whether a next page exists.
  const rows = await pool.read<PetRow[]>((sql) =>
    status
      ? // Not status = …, where the planner may walk the primary key and drop what has another status: a rare one would cost the whole table.
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
