/** All reads from the SQLite store, through a read-only connection. */
import type Database from 'better-sqlite3';
import type { PetJson, PetQuery, StoreState } from '../../core/pets.ts';
import { foundOf, isStateOf, pageOf, type State } from '../state.ts';
import type { Steps } from '../steps.ts';
import { createRunner, translate } from './connection.ts';
import { openFor } from './store-file.ts';

/**
 * Opens the store in `file` for reading. Throws OpenError. Reads are short and end before they return. They reject with ApiError `service_unavailable`
 * if the store cannot be read.
 */
export const startReader = (file: string) => openFor(file, prepareReader);

/**
 * The maximum age of a snapshot. A socket that has sent something may be read some time after the poll that found it, together with a pipelined request
 * that was sent meanwhile.
 */
const maxSnapshotMs = 1;

// Before a test replaces `performance`.
const { nodeTiming } = performance;

/** Runs a read at once; its errors become those of the store. */
function guarded<Input extends unknown[], Output>(read: (...input: Input) => Output) {
  return async (...input: Input): Promise<Output> => {
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

  let isOpen = false;
  /** When the open snapshot began: performance.now(), and the event loop's counts. */
  let begun = 0;
  let loops = 0;
  let found = 0;
  let current: State = { version: -1, revision: '' };

  function end(): void {
    if (!isOpen) return;
    isOpen = false;
    try {
      commit.run();
    } catch {
      // A read failed: either SQLite has already ended the transaction, or it must be rolled back.
      if (connection.inTransaction) connection.exec('ROLLBACK');
    }
  }

  /**
   * Ends a snapshot that began before the event loop last asked the kernel for events: it may lack what was acknowledged before one of those. libuv counts
   * a loop before it asks, and the events before it asks again in the same loop. setImmediate alone would end it too late: one that begins in a callback of
   * setImmediate or of a timer would still serve what the next poll finds.
   */
  function endOld(): void {
    if (!isOpen) return;
    const { loopCount, events } = nodeTiming.uvMetricsInfo;
    if (loopCount !== loops || events !== found || performance.now() - begun >= maxSnapshotMs) end();
  }

  /** Opens or reuses a snapshot: SQLite then takes its locks once for all reads between two polls instead of once or twice per read. */
  function enter(): void {
    endOld();
    if (isOpen) return;
    begin.run();
    isOpen = true;
    begun = performance.now();
    ({ loopCount: loops, events: found } = nodeTiming.uvMetricsInfo);
    try {
      current = stateNow();
    } catch (error) {
      end();
      throw error;
    }
    // An idle process must not hold one: checkpoints could not reset the write-ahead log.
    setImmediate(end);
  }

  function stateNow(): State {
    const version = dataVersion.get() as number;
    if (version === current.version) return current;
    // A text: no version is equal to it.
    return { version, revision: `${petRevision.get()} ${schemaVersion.get()}` };
  }

  /** `state`: of the snapshot that `enter` opened. */
  return { enter, state: () => current, end, endOld };
}

function prepareReader(connection: Database.Database) {
  const prepare = <Parameters extends unknown[], Row>(text: string) => connection.prepare<Parameters, Row>(text);
  // +? hides the value from the query planner. Otherwise SQLite recompiles the statement whenever the status or limit changes, which
  // costs as much as reading ten rows (https://sqlite.org/c3ref/c_dbconfig_defensive.html, SQLITE_DBCONFIG_ENABLE_QPSG).
  const listAll = prepare<[bigint, number], PetJson>('SELECT json FROM pet WHERE id > +? ORDER BY id LIMIT +?').pluck();
  const listByStatus = prepare<[string, bigint, number], PetJson>(
    'SELECT json FROM pet WHERE status = +? AND id > +? ORDER BY id LIMIT +?',
  ).pluck();
  const byId = prepare<[bigint], PetJson>('SELECT json FROM pet WHERE id = ?').pluck();
  const snapshot = createSnapshot(connection);
  const runSteps = createRunner(connection);
  const runQuery = guarded((query: () => Steps<unknown>) => {
    snapshot.endOld();
    return runSteps(query());
  });

  return {
    isCurrent: guarded((read: StoreState) => {
      snapshot.enter();
      return isStateOf(snapshot.state(), read);
    }),
    check: guarded(snapshot.enter),
    /** Ends the snapshot that reads share, so that the next one sees the latest commit. For a commit of this process, before it is acknowledged. */
    endSnapshot: snapshot.end,
    list: guarded(({ limit, status, after }: PetQuery) => {
      snapshot.enter();
      // One extra row shows whether a next page exists.
      const pets = status ? listByStatus.all(status, after, limit + 1) : listAll.all(after, limit + 1);
      return pageOf(pets, limit, snapshot.state());
    }),
    find: guarded((id: bigint) => {
      snapshot.enter();
      return foundOf(byId.get(id), snapshot.state());
    }),
    /** Runs a query of accounts and people, in the snapshot of the pets if one is open. */
    run: <Result>(query: () => Steps<Result>) => runQuery(query) as Promise<Result>,
    close() {
      snapshot.end();
      connection.close();
    },
  };
}
