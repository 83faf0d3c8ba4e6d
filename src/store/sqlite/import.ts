/** Imports pets in batches. Each batch and the import's progress are saved in one transaction. */
import type Database from 'better-sqlite3';
import { type Batch, ConcurrentImportError, firstMark, type Import, type Mark, type NewRow } from '../bulk.ts';
import type { OpenOptions } from '../store.ts';
import { checkpoint, openConnection, translate } from './connection.ts';
import { prepareStore } from './store-file.ts';

/** Thrown to roll a batch back. */
class Conflict extends Error {
  readonly refused: NewRow[];
  constructor(refused: NewRow[]) {
    super();
    this.refused = refused;
  }
}

/** The WAL grows by a few MiB in between. */
const batchesBetweenCheckpoints = 16;

/** Starts or resumes the import that `hash` identifies. `again`: import again even if already imported. Throws OpenError. */
export function openImport(file: string, hash: Buffer, again: boolean, options: OpenOptions): Import {
  prepareStore(file, options);
  const connection = openConnection(file);
  const statements = prepareStatements(connection);
  const { findMark, findId, claim } = statements;
  let stored = findMark.get(hash);
  let mark = firstMark(stored, again);
  let batches = 0;

  const run = connection.transaction((batch: Batch) => {
    const at = options.now().getTime();
    return addBatch(statements, { hash, stored, animals: mark.animals, at }, batch);
  });

  function firstUse(id: bigint, line: number): number | undefined {
    return findId.get(id) === undefined ? claim.get(id, line)?.line : undefined;
  }

  return {
    mark: () => mark,

    async claimIds(rows) {
      try {
        const claimed = rows.map(({ id, line }) => ({ line, usedOn: firstUse(id as bigint, line) }));
        return claimed.filter(({ line, usedOn }) => usedOn !== line);
      } catch (error) {
        throw translate(error);
      }
    },

    async add(batch) {
      try {
        // Before a batch, not after the last: its pets are already on disk, and closing the connection checkpoints the rest.
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

function prepareStatements(connection: Database.Database) {
  // A temporary table can spill to disk: there may be more ids than memory.
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

/** The import to which a batch belongs. */
interface Progress {
  hash: Buffer;
  /** The mark that the store must still have. */
  stored: Mark | undefined;
  /** Pets added before. */
  animals: number;
  at: number;
}

/** Needs a transaction, which it rolls back by throwing Conflict or ConcurrentImportError. */
function addBatch(
  { findMark, setMark, insert }: ReturnType<typeof prepareStatements>,
  { hash, stored, animals, at }: Progress,
  { rows, lines, ended, whole }: Batch,
): { refused: NewRow[]; moved: Mark } {
  const present = findMark.get(hash);
  if (present?.lines !== stored?.lines || present?.endedAt !== stored?.endedAt) throw new ConcurrentImportError();
  const refused = rows.filter(
    ({ id, name, categoryId, status }) => insert.run(id ?? null, name, categoryId, status).changes === 0,
  );
  if (whole && refused.length > 0) throw new Conflict(refused);
  const moved: Mark = { lines, animals: animals + rows.length - refused.length, endedAt: ended ? at : null };
  setMark.run({ hash, ...moved, at });
  return { refused, moved };
}
