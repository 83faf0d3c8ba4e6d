/** All animals of a store, a few at a time, beside a running server. */
import type { PetJson, PetStatus } from '../../pets.ts';
import type { OpenOptions } from '../store.ts';
import { openExisting, openReader, prepareStore } from './connection.ts';

export interface PetRow {
  id: bigint;
  name: string;
  category_id: bigint;
  status: PetStatus;
  json: PetJson;
}

export interface Export {
  /** Animals that fit, at this instant. */
  count(): number;
  /** Ascending by id, each page of a read of its own: one long read would keep the log from being emptied, and it would grow. */
  pages(): Generator<PetRow[]>;
  close(): void;
}

/** Bounds what is in memory at once: a name may be nearly as long as a request's body. */
const pageRows = 200;

/** Opens an existing store for reading, bringing it to this release's schema first. Throws OpenError. */
export function openExport(file: string, status: PetStatus | undefined, options: OpenOptions): Export {
  openExisting(file).close();
  prepareStore(file, options);
  const connection = openReader(file);
  const filter = status === undefined ? '' : 'status = :status AND';
  const given = status === undefined ? {} : { status };
  const page = connection.prepare<[object], PetRow>(
    `SELECT id, name, category_id, status, json FROM pet WHERE ${filter} id > :after ORDER BY id LIMIT ${pageRows}`,
  );
  const count = connection.prepare<[object], bigint>(`SELECT count(*) FROM pet WHERE ${filter} TRUE`).pluck();
  return {
    count: () => Number(count.get(given)),
    *pages() {
      // Animals are never changed and ids only grow, so that pages read one after the other are as good as one snapshot.
      for (let rows = page.all({ ...given, after: 0n }); rows.length > 0; ) {
        yield rows;
        rows = page.all({ ...given, after: (rows.at(-1) as PetRow).id });
      }
    },
    close: () => connection.close(),
  };
}
