/** Export and import of all pets: what each engine implements for the commands. */
import type { NewPet, PetJson, PetStatus } from '../core/pets.ts';

export interface PetRow {
  /** As decimal text if the engine's driver returns that. */
  id: bigint | string;
  name: string;
  category_id: bigint | string;
  status: PetStatus;
  json: PetJson;
}

/** Every method throws or rejects with ApiError `service_unavailable` if the store is unavailable. */
export interface Export {
  /** The number of matching pets now. */
  count(): Promise<number> | number;
  /** Pages in ascending order of id. Each page is its own read: one long read would keep the database from removing old row versions. */
  pages(): AsyncIterable<PetRow[]> | Iterable<PetRow[]>;
  close(): void;
}

/** Rows of a page. Limits memory use: a name can be nearly as long as a request body. */
export const exportPageRows = 200;

export interface NewRow extends NewPet {
  /** The first and the last line of the row in the imported file, from 1. */
  line: number;
  last: number;
  /** Undefined: the store assigns an id. */
  id?: bigint | undefined;
}

/** The progress of an import, which can be resumed from here. */
export interface Mark {
  /** Lines already processed. */
  lines: number;
  /** Pets added. */
  animals: number;
  /** When the import completed, in milliseconds; null before. */
  endedAt: number | null;
}

export interface Batch {
  rows: NewRow[];
  /** Lines processed after this batch. */
  lines: number;
  /** Whether this is the last batch. */
  ended: boolean;
  /** Add all rows or none. */
  whole: boolean;
}

/** A row whose id is not free. */
interface TakenId {
  line: number;
  /** The earlier line of this import with that id; undefined if the store has it. */
  usedOn: number | undefined;
}

export interface Import {
  mark(): Mark;
  /** Claims the ids of the rows, before the first batch. Rejects with ApiError `service_unavailable`. */
  claimIds(rows: NewRow[]): Promise<TakenId[]>;
  /**
   * Adds the batch and updates the mark; both are on disk when this resolves. Resolves to the rows that were skipped because their id already
   * exists. Rejects with ApiError `service_unavailable`, LostBatchError, or ConcurrentImportError if another process runs the same import.
   */
  add(batch: Batch): Promise<NewRow[]>;
  close(): void;
}

export class ConcurrentImportError extends Error {}

/** The connection was lost while a batch was added: it may be on disk. */
export class LostBatchError extends Error {}

/** Where an import begins, given the mark of an earlier one. `again`: import again even if already imported. */
export function firstMark(stored: Mark | undefined, again: boolean): Mark {
  return stored === undefined || (again && stored.endedAt !== null) ? { lines: 0, animals: 0, endedAt: null } : stored;
}
