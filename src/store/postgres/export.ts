/** Reads all pets of a database page by page, also while servers run. */
import { type PetStatus, petJson } from '../../core/pets.ts';
import { type Export, exportPageRows, type PetRow } from '../bulk.ts';
import type { OpenOptions } from '../store.ts';
import { translated } from './errors.ts';
import { openAlone } from './open.ts';

/** Opens a database with this release's schema for reading. Rejects with OpenError. */
export async function openExport(
  databaseUrl: string,
  status: PetStatus | undefined,
  options: OpenOptions,
): Promise<Export> {
  const { sql, destroy } = await openAlone(databaseUrl, { ...options, migrate: false });
  const filter = status === undefined ? '' : 'status = $2 AND';
  const given = status === undefined ? [] : [status];
  const page = `SELECT id, name, category_id, status FROM pet WHERE ${filter} id > $1 ORDER BY id LIMIT ${exportPageRows}`;
  return {
    async count() {
      const where = status === undefined ? '' : 'WHERE status = $1';
      const [row] = await translated(() => sql.unsafe(`SELECT count(*) AS pets FROM pet ${where}`, given));
      return Number(row?.pets);
    },

    async *pages() {
      // Ids become visible in ascending order, so consecutive reads return the same rows as one snapshot.
      for (let after: bigint | string = '0'; ; ) {
        const read = () => sql.unsafe<Omit<PetRow, 'json'>[]>(page, [after, ...given]);
        const rows = await translated(read);
        const last = rows.at(-1);
        if (last === undefined) return;
        yield rows.map((row) => ({ ...row, json: petJson(row.id, row.name, row.category_id as string, row.status) }));
        after = last.id;
      }
    },

    close: destroy,
  };
}
