/** All reads from the SQLite store, through a read-only connection. */
import type Database from 'better-sqlite3';
import { type FoundPet, type PetJson, type PetQuery, pageOf, type StoreState } from '../../core/pets.ts';
import type { Steps } from '../steps.ts';
import { createRunner, translate } from './connection.ts';
import { openFor } from './store-file.ts';

/**
 * Opens the store in `file` for reading. Throws OpenError. Reads are short and synchronous, and throw ApiError `service_unavailable` if the store
 * cannot be read.
 */
export const startReader = (file: string) => openFor(file, prepareReader);

/**
 * The maximum age of a snapshot. One turn of the event loop can poll the kernel several times (each poll returns at most 1,024 sockets), so
 * it may handle requests that arrived after the snapshot began.
 */
const maxSnapshotMs = 1;

/** Runs a read; its errors become those of the store. */
function guarded<Input extends unknown[], Output>(read: (...input: Input) => Output): (...input: Input) => Output {
  return (...input) => {
    try {
      return read(...input);
    } catch (error) {
      throw translate(error);
    }
  };
}

function createSnapshot(connection: Database.Database) {
  const begin = connection.prepare<[], never>('BEGIN');
  const commit = connection.prepare<[], never>('COMMIT');
  // Changes when another connection commits (https://sqlite.org/pragma.html#pragma_data_version). This connection never writes.
  const dataVersion = connection.prepare<[], number>('PRAGMA data_version').pluck().safeIntegers(false);
  const petRevision = connection.prepare<[], number>('SELECT revision FROM pet_revision').pluck().safeIntegers(false);
  // A restore into the open file raises it: the revision is then that of the backup.
  const schemaVersion = connection.prepare<[], number>('PRAGMA schema_version').pluck().safeIntegers(false);

  /** performance.now() at the start of the open snapshot; undefined if none is open. */
  let begun: number | undefined;
  let current: StoreState = { version: -1, revision: -1 };

  function end(): void {
    if (begun === undefined) return;
    begun = undefined;
    try {
      commit.run();
    } catch {
      // A read failed: either SQLite has already ended the transaction, or it must be rolled back.
      if (connection.inTransaction) connection.exec('ROLLBACK');
    }
  }

  /** Opens or reuses the snapshot of this turn: SQLite then takes its locks once per turn instead of once or twice per read. */
  function enter(): void {
    const now = performance.now();
    if (begun !== undefined) {
      if (now - begun < maxSnapshotMs) return;
      end();
    }
    begin.run();
    begun = now;
    try {
      current = stateNow();
    } catch (error) {
      end();
      throw error;
    }
    setImmediate(end);
  }

  function stateNow(): StoreState {
    const version = dataVersion.get() as number;
    if (version === current.version) return current;
    return { version, revision: (petRevision.get() as number) * 1_000_000 + (schemaVersion.get() as number) };
  }

  /** `state`: of the snapshot that `enter` opened. */
  return { enter, state: () => current, end };
}

function prepareReader(connection: Database.Database) {
  const sql = <Parameters extends unknown[], Row>(text: string) => connection.prepare<Parameters, Row>(text);
  // +? hides the value from the query planner. Otherwise SQLite recompiles the statement whenever the status or limit changes, which
  // costs as much as reading ten rows (https://sqlite.org/c3ref/c_dbconfig_defensive.html, SQLITE_DBCONFIG_ENABLE_QPSG).
  const listAll = sql<[bigint, number], PetJson>('SELECT json FROM pet WHERE id > +? ORDER BY id LIMIT +?').pluck();
  const listByStatus = sql<[string, bigint, number], PetJson>(
    'SELECT json FROM pet WHERE status = +? AND id > +? ORDER BY id LIMIT +?',
  ).pluck();
  const byId = sql<[bigint], PetJson>('SELECT json FROM pet WHERE id = ?').pluck();
  const snapshot = createSnapshot(connection);
  const runSteps = createRunner(connection);

  return {
    state: guarded(() => {
      snapshot.enter();
      return snapshot.state();
    }),
    /** Ends the snapshot that the reads of one event loop turn share, so that the next read sees the latest commit. */
    refresh: snapshot.end,
    list: guarded(({ limit, status, after }: PetQuery) => {
      snapshot.enter();
      // One extra row shows whether a next page exists.
      const pets = status ? listByStatus.all(status, after, limit + 1) : listAll.all(after, limit + 1);
      return pageOf(pets, limit, snapshot.state());
    }),
    find: guarded((id: bigint): FoundPet => {
      snapshot.enter();
      return { pet: byId.get(id), state: snapshot.state() };
    }),
    /** Runs a query of accounts and people. Each of its statements sees the latest commit. */
    async run<Result>(query: () => Steps<Result>) {
      return guarded(() => runSteps(query()))();
    },
    close() {
      snapshot.end();
      connection.close();
    },
  };
}
