/** Reads all pets of a store page by page, also while a server runs. */
import type { PetStatus } from '../../core/pets.ts';
import { type Export, exportPageRows, type PetRow } from '../bulk.ts';
import type { OpenOptions } from '../store.ts';
import { openReader, translate } from './connection.ts';
import { openExisting, prepareStore } from './store-file.ts';

/** Opens an existing store for reading, after migrating it to this release's schema. Throws OpenError. */
export function openExport(file: string, status: PetStatus | undefined, options: OpenOptions): Export {
  openExisting(file).close();
  prepareStore(file, options);
  const connection = openReader(file);
  const filter = status === undefined ? '' : 'status = :status AND';
  const given = status === undefined ? {} : { status };
  const page = connection.prepare<[object], PetRow>(
    `SELECT id, name, category_id, status, json FROM pet WHERE ${filter} id > :after ORDER BY id LIMIT ${exportPageRows}`,
  );
  const count = connection.prepare<[object], bigint>(`SELECT count(*) FROM pet WHERE ${filter} TRUE`).pluck();
  function read<Result>(work: () => Result): Result {
    try {
      return work();
    } catch (error) {
      throw translate(error);
    }
  }
  const pageAfter = (after: PetRow['id']) => read(() => page.all({ ...given, after }));
  return {
    count: () => Number(read(() => count.get(given))),
    *pages() {
      // Pets never change and ids only grow, so consecutive reads return the same rows as one snapshot. One long read would hold up
      // checkpoints, and the WAL would grow.
      for (let rows = pageAfter(0n); rows.length > 0; rows = pageAfter((rows.at(-1) as PetRow).id)) yield rows;
    },
    close: () => connection.close(),
  };
}
