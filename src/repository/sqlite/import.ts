/** Animals added in batches, each in one transaction with the mark of how far the import has come. */
import type { NewPet } from '../../pets.ts';
import type { OpenOptions } from '../store.ts';
import { type Connection, checkpoint, openConnection, prepareStore, translate } from './connection.ts';

export interface NewRow extends NewPet {
  /** The line that it came from. */
  line: number;
  /** Undefined where the store is to assign it. */
  id?: bigint | undefined;
}

/** How far an import has come: so many lines need not be read again, and so many animals were added. */
interface Mark {
  lines: number;
  animals: number;
  /** When its last line was read; null until then. */
  endedAt: number | null;
}

export interface Batch {
  rows: NewRow[];
  /** The mark's lines after it. */
  lines: number;
  /** The last one. */
  ended: boolean;
  /** Add all of it or nothing. */
  whole: boolean;
}

export interface Import {
  mark(): Mark;
  hasId(id: bigint): boolean;
  /** The line on which this import gave the id before; undefined where it did not, and then it is taken down as given on `line`. */
  claimId(id: bigint, line: number): number | undefined;
  /**
   * Adds the batch and moves the mark, on disk when it returns. Returns the rows whose id exists already, which are left out.
   * Throws ApiError `service_unavailable`, and ConcurrentImportError where another process is at work on the same import.
   */
  add(batch: Batch): NewRow[];
  close(): void;
}

export class ConcurrentImportError extends Error {}

/** Thrown to roll a batch back. */
class Conflict extends Error {
  readonly refused: NewRow[];
  constructor(refused: NewRow[]) {
    super();
    this.refused = refused;
  }
}

/** A few MiB of log. */
const batchesBetweenCheckpoints = 16;

const none: Mark = { lines: 0, animals: 0, endedAt: null };

/** Begins the import of the content with this hash, or goes on with it; `again`: also where it was completed before. Throws OpenError. */
export function openImport(file: string, hash: Buffer, again: boolean, options: OpenOptions): Import {
  prepareStore(file, options);
  const connection = openConnection(file);
  const { findMark, setMark, insert, findId, claim } = prepareStatements(connection);
  const now = () => options.now().getTime();
  let stored = findMark.get(hash);
  let mark = stored === undefined || (again && stored.endedAt !== null) ? none : stored;
  let batches = 0;

  const run = connection.transaction(({ rows, lines, ended, whole }: Batch) => {
    const present = findMark.get(hash);
    if (present?.lines !== stored?.lines || present?.endedAt !== stored?.endedAt) throw new ConcurrentImportError();
    const refused = rows.filter(
      ({ id, name, categoryId, status }) => insert.run(id ?? null, name, categoryId, status).changes === 0,
    );
    if (whole && refused.length > 0) throw new Conflict(refused);
    const moved: Mark = {
      lines,
      animals: mark.animals + rows.length - refused.length,
      endedAt: ended ? now() : null,
    };
    setMark.run({ hash, ...moved, at: now() });
    return { refused, moved };
  });

  return {
    mark: () => mark,
    hasId: (id) => findId.get(id) !== undefined,
    claimId: (id, line) => {
      const first = (claim.get(id, line) as { line: number }).line;
      return first === line ? undefined : first;
    },
    add(batch) {
      try {
        // Not after the last batch, whose animals are on disk already: closing moves the rest of the log.
        if (batches % batchesBetweenCheckpoints === 0) checkpoint(connection);
        const { refused, moved } = run.immediate(batch);
        batches += 1;
        stored = moved;
        mark = moved;
        return refused;
      } catch (error) {
        if (error instanceof Conflict) return error.refused;
        throw translate(error);
      }
    },
    close: () => connection.close(),
  };
}

function prepareStatements(connection: Connection) {
  // In a temporary file, as there may be more ids than memory.
  connection.exec('CREATE TEMP TABLE given (id INTEGER PRIMARY KEY, line INTEGER NOT NULL)');
  const sql = <Parameters extends unknown[], Row = unknown>(text: string) => connection.prepare<Parameters, Row>(text);
  return {
    findMark: sql<[Buffer], Mark>('SELECT lines, animals, ended_at AS endedAt FROM import WHERE hash = ?').safeIntegers(
      false,
    ),
    setMark: sql<[object]>(
      `INSERT INTO import (hash, lines, animals, began_at, ended_at) VALUES (:hash, :lines, :animals, :at, :endedAt)
       ON CONFLICT DO UPDATE SET lines = excluded.lines, animals = excluded.animals, ended_at = excluded.ended_at`,
    ),
    insert: sql<[bigint | null, string, bigint, string]>(
      'INSERT INTO pet (id, name, category_id, status) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
    ),
    findId: sql<[bigint]>('SELECT 1 FROM pet WHERE id = ?'),
    claim: sql<[bigint, number], { line: number }>(
      'INSERT INTO given (id, line) VALUES (?, ?) ON CONFLICT DO UPDATE SET line = line RETURNING line',
    ).safeIntegers(false),
  };
}
