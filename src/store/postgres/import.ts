/** Imports pets in batches. Each batch and the import's progress are saved by one call of the function import_pets. */
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../core/errors.ts';
import {
  type Batch,
  ConcurrentImportError,
  firstMark,
  type Import,
  LostBatchError,
  type Mark,
  type NewRow,
} from '../bulk.ts';
import type { OpenOptions } from '../store.ts';
import { endsConnection, translate, translated, wasRefused } from './errors.ts';
import { openAlone } from './open.ts';
import { arrayOf, type Sql } from './sql.ts';

interface Outcome {
  outcome: 'added' | 'conflict' | 'concurrent';
  /** Places of the rows whose id exists already, from 1. */
  refused: number[];
}

const retryDelayMs = 10;

/** Starts or resumes the import that `hash` identifies. `again`: import again even if already imported. Rejects with OpenError. */
export async function openImport(
  databaseUrl: string,
  hash: Buffer,
  again: boolean,
  options: OpenOptions,
): Promise<Import> {
  const { sql, destroy } = await openAlone(databaseUrl, options);
  let stored: Mark | undefined;
  try {
    stored = await translated(() => findMark(sql, hash));
  } catch (error) {
    // An open connection keeps the process running.
    destroy();
    throw error;
  }
  let mark = firstMark(stored, again);
  let claiming = false;

  return {
    mark: () => mark,

    claimIds(rows) {
      return translated(async () => {
        if (!claiming) await beginClaims(sql);
        claiming = true;
        return claimIds(sql, rows);
      });
    },

    async add(batch) {
      const { rows, lines, ended } = batch;
      if (claiming) await translated(() => sql.unsafe('ROLLBACK'));
      claiming = false;
      const at = options.now().getTime();
      const [{ outcome, refused }] = await send(() =>
        addBatch(sql, { hash, stored, animals: mark.animals, at }, batch),
      );
      if (outcome === 'concurrent') throw new ConcurrentImportError();
      const skipped = refused.flatMap((place) => rows[place - 1] ?? []);
      if (outcome === 'added') {
        mark = { lines, animals: mark.animals + rows.length - skipped.length, endedAt: ended ? at : null };
        stored = mark;
      }
      return skipped;
    },

    close: destroy,
  };
}

/** The lock makes it a write, which waits for the synchronous standby: a failover could lose a mark that was only read. */
async function findMark(sql: Sql, hash: Buffer): Promise<Mark | undefined> {
  const [row] = await sql`SELECT lines, animals, ended_at FROM import WHERE hash = ${hash} FOR UPDATE`;
  if (row === undefined) return undefined;
  const { lines, animals, ended_at } = row;
  return { lines: Number(lines), animals: Number(animals), endedAt: ended_at === null ? null : Number(ended_at) };
}

/** The import to which a batch belongs. */
interface Progress {
  hash: Buffer;
  /** The mark that the database must still have. */
  stored: Mark | undefined;
  /** Pets added before. */
  animals: number;
  at: number;
}

function addBatch(sql: Sql, { hash, stored, animals, at }: Progress, { rows, lines, ended, whole }: Batch) {
  return sql<[Outcome]>`
    SELECT outcome, refused FROM import_pets(
      ${hash}, ${stored?.lines ?? null}, ${stored?.endedAt ?? null}, ${arrayOf(rows.map(({ id }) => id))},
      ${arrayOf(rows.map(({ name }) => name))}, ${arrayOf(rows.map(({ categoryId }) => categoryId))},
      ${arrayOf(rows.map(({ status }) => status))}, ${whole}, ${lines}, ${animals}, ${at}, ${ended}
    )`;
}

/** A temporary table can spill to disk. In one transaction, because a pooler may give the next one another session. */
async function beginClaims(sql: Sql): Promise<void> {
  await sql.unsafe('BEGIN ISOLATION LEVEL READ COMMITTED');
  await sql.unsafe('CREATE TEMP TABLE given (id bigint PRIMARY KEY, line bigint NOT NULL) ON COMMIT DROP');
}

async function claimIds(sql: Sql, rows: NewRow[]): ReturnType<Import['claimIds']> {
  const values = [arrayOf(rows.map(({ id }) => id)), arrayOf(rows.map(({ line }) => line))];
  const batch = 'unnest($1::bigint[], $2::bigint[]) AS batch (id, line)';
  await sql.unsafe(
    `INSERT INTO given SELECT id, line FROM ${batch} WHERE NOT EXISTS (SELECT FROM pet WHERE pet.id = batch.id)
     ORDER BY line ON CONFLICT DO NOTHING`,
    values,
  );
  const taken = await sql.unsafe(
    `SELECT batch.line, given.line AS used_on FROM ${batch} LEFT JOIN given ON given.id = batch.id
     WHERE given.line IS DISTINCT FROM batch.line ORDER BY batch.line`,
    values,
  );
  return taken.map(({ line, used_on }) => ({
    line: Number(line),
    usedOn: used_on === null ? undefined : Number(used_on),
  }));
}

/** Repeats a call that the database has rolled back because of a concurrent transaction. */
async function send<Result>(call: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (endsConnection(error)) throw new LostBatchError(messageOf(error), { cause: error });
      if (!wasRefused(error)) throw translate(error);
      await sleep(retryDelayMs);
    }
  }
}
