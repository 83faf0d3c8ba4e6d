/** All reads from the SQLite store, through a read-only connection. Each is one statement, and so its own snapshot: it sees every commit before it. */
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

/**
 * `now` reads the state; `known` is the one that was read last, and costs a miss no statement. No state comes back: a read belongs to the known state or to a
 * later one, and then the known one is not current.
 */
function prepareState(connection: Database.Database) {
  // Changes when another connection commits (https://sqlite.org/pragma.html#pragma_data_version). This connection never writes.
  const dataVersion = connection.prepare<[], number>('PRAGMA data_version').pluck().safeIntegers(false);
  // A restore into the open file raises the schema version: the revision is then that of the backup. pragma_schema_version in each read takes 3 µs.
  const petRevision = connection
    .prepare<[], string>("SELECT revision || ' ' || schema_version FROM pet_revision, pragma_schema_version")
    .pluck();
  let state: State | undefined;
  function now(): State {
    const version = dataVersion.get() as number;
    // NaN, if the row is missing, is equal to no state.
    if (version !== state?.version) state = { version, revision: petRevision.get() ?? Number.NaN };
    return state;
  }
  return { now, known: () => state ?? now() };
}

function prepareReader(connection: Database.Database) {
  const prepare = <Parameters extends unknown[]>(text: string) => connection.prepare<Parameters, PetJson>(text).pluck();
  // +? hides the value from the query planner. Otherwise SQLite recompiles the statement whenever the status or limit changes, which
  // costs as much as reading ten rows (https://sqlite.org/c3ref/c_dbconfig_defensive.html, SQLITE_DBCONFIG_ENABLE_QPSG).
  const listAll = prepare<[bigint, number]>('SELECT json FROM pet WHERE id > +? ORDER BY id LIMIT +?');
  const listByStatus = prepare<[string, bigint, number]>(
    'SELECT json FROM pet WHERE status = +? AND id > +? ORDER BY id LIMIT +?',
  );
  const byId = prepare<[bigint]>('SELECT json FROM pet WHERE id = ?');
  const state = prepareState(connection);
  const runSteps = createRunner(connection);
  const runQuery = guarded((query: () => Steps<unknown>) => runSteps(query()));

  return {
    isCurrent: guarded((read: StoreState) => isStateOf(state.now(), read)),
    check: guarded(state.now),
    list: guarded(({ limit, status, after }: PetQuery) => {
      const known = state.known();
      // One extra row shows whether a next page exists.
      const pets = status ? listByStatus.all(status, after, limit + 1) : listAll.all(after, limit + 1);
      return pageOf(pets, limit, known);
    }),
    find: guarded((id: bigint) => {
      const known = state.known();
      return foundOf(byId.get(id), known);
    }),
    /** Runs a query of accounts and people. */
    run: <Result>(query: () => Steps<Result>) => runQuery(query) as Promise<Result>,
    close: () => connection.close(),
  };
}
