/** Reads pets from PostgreSQL as JSON text. */
import { type PetJson, type PetPage, type PetQuery, petJson } from '../../core/pets.ts';
import type { Pool } from './pool.ts';

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
