/** All reads from the SQLite store, through a read-only connection. */
import type { Account, ApiKey } from '../../accounts.ts';
import { type OneTimeLink, type Session, sessionIdleMs, sessionLifetimeMs } from '../../people.ts';
import type { PetJson, PetPage, PetQuery, StoreState } from '../../pets.ts';
import {
  type AccountRow,
  type ApiKeyRow,
  accountColumns,
  apiKeyColumns,
  isActive,
  type LinkRow,
  type PersonRow,
  type SessionRow,
  toAccount,
  toApiKey,
  toLink,
  toSession,
} from '../rows.ts';
import { openError, openReader, translate } from './connection.ts';

/** Reads are short and synchronous. They throw ApiError `service_unavailable` if the store cannot be read. */
export interface Reader {
  listPets(query: PetQuery): PetPage;
  findPet(id: bigint): PetJson | undefined;
  state(): StoreState;
  /** Ends the snapshot that the reads of one event loop turn share, so that the next read sees the latest commit. */
  refresh(): void;
  listAccounts(): Account[];
  listKeys(account?: string): ApiKey[];
  listOwnKeys(accountId: number, maxEnded: number, now: number): { active: ApiKey[]; ended: ApiKey[] };
  findKey(hash: Buffer): ApiKey | undefined;
  findPerson(name: string): { account: Account; passwordHash: string | null } | undefined;
  findSession(hash: Buffer, now: number): Session | undefined;
  findLink(hash: Buffer, now: number): OneTimeLink | undefined;
  hasEvents(): boolean;
  close(): void;
}

/** Opens the store in `file` for reading. Throws OpenError. */
export function startReader(file: string): Reader {
  let connection: ReturnType<typeof openReader> | undefined;
  try {
    connection = openReader(file);
    return prepareReader(connection);
  } catch (error) {
    connection?.close();
    throw openError(file, error);
  }
}

/**
 * The maximum age of a snapshot. One turn of the event loop can poll the kernel several times (each poll returns at most 1,024 sockets), so
 * it may handle requests that arrived after the snapshot began.
 */
const maxSnapshotMs = 1;

/** A pet's JSON starts with its id. Ids are below 2^53, so parsing as a number is exact. */
function idOf(pet: PetJson): bigint {
  return BigInt(Number.parseInt(pet.slice('{"id":'.length), 10));
}

function prepareReader(connection: ReturnType<typeof openReader>): Reader {
  const sql = <Parameters extends unknown[], Row>(text: string) => connection.prepare<Parameters, Row>(text);
  // +? hides the value from the query planner. Otherwise SQLite recompiles the statement whenever the status or limit changes, which
  // costs as much as reading ten rows (https://sqlite.org/c3ref/c_dbconfig_defensive.html, SQLITE_DBCONFIG_ENABLE_QPSG).
  const listAll = sql<[bigint, number], PetJson>('SELECT json FROM pet WHERE id > +? ORDER BY id LIMIT +?').pluck();
  const listByStatus = sql<[string, bigint, number], PetJson>(
    'SELECT json FROM pet WHERE status = +? AND id > +? ORDER BY id LIMIT +?',
  ).pluck();
  const findPet = sql<[bigint], PetJson>('SELECT json FROM pet WHERE id = ?').pluck();
  const begin = sql<[], never>('BEGIN');
  const commit = sql<[], never>('COMMIT');
  // Changes when another connection commits (https://sqlite.org/pragma.html#pragma_data_version). This connection never writes.
  const dataVersion = sql<[], number>('PRAGMA data_version').pluck().safeIntegers(false);
  const petRevision = sql<[], number>('SELECT revision FROM pet_revision').pluck().safeIntegers(false);
  const listAccounts = sql<[], AccountRow>(`SELECT ${accountColumns} FROM account ORDER BY id`);
  const listKeys = sql<[string | null], ApiKeyRow>(
    `SELECT ${apiKeyColumns} WHERE account.name = coalesce(?, account.name) ORDER BY api_key.id`,
  );
  const listActive = sql<[number, number], ApiKeyRow>(
    `SELECT ${apiKeyColumns} WHERE account_id = ? AND ${isActive} ? ORDER BY +api_key.id DESC`,
  );
  const listEnded = sql<[number, number, number], ApiKeyRow>(
    `SELECT ${apiKeyColumns} WHERE account_id = ? AND NOT (${isActive} ?) ORDER BY api_key.id DESC LIMIT ?`,
  );
  const findKey = sql<[Buffer], ApiKeyRow>(`SELECT ${apiKeyColumns} WHERE hash = ?`);
  const findPerson = sql<[string], PersonRow>(`SELECT ${accountColumns}, password_hash FROM account WHERE name = ?`);
  const findSession = sql<[Buffer, number, number], SessionRow>(
    `SELECT ${accountColumns}, used_at FROM session JOIN account ON account.id = account_id
     WHERE hash = ? AND session.created_at > ? AND used_at > ?`,
  );
  const findLink = sql<[Buffer, number], LinkRow>(
    `SELECT purpose, ${accountColumns} FROM one_time_link LEFT JOIN account ON account.id = account_id
     WHERE hash = ? AND expires_at > ?`,
  );
  const hasEvents = sql<[], unknown>('SELECT 1 FROM account_event LIMIT 1');

  function guarded<Input extends unknown[], Output>(query: (...input: Input) => Output): (...input: Input) => Output {
    return (...input) => {
      try {
        return query(...input);
      } catch (error) {
        throw translate(error);
      }
    };
  }

  /** performance.now() at the start of the open snapshot; undefined if none is open. */
  let begun: number | undefined;
  let scheduled = false;
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
    if (scheduled) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      end();
    });
  }

  function stateNow(): StoreState {
    const version = dataVersion.get() as number;
    return version === current.version ? current : { version, revision: petRevision.get() as number };
  }

  return {
    state: guarded(() => {
      enter();
      return current;
    }),
    refresh: end,
    listPets: guarded(({ limit, status, after }) => {
      enter();
      // One extra row shows whether a next page exists.
      const pets = status ? listByStatus.all(status, after, limit + 1) : listAll.all(after, limit + 1);
      if (pets.length <= limit) return { pets, next: undefined };
      pets.pop();
      return { pets, next: idOf(pets.at(-1) as PetJson) };
    }),
    findPet: guarded((id) => {
      enter();
      return findPet.get(id);
    }),
    listAccounts: guarded(() => listAccounts.all().map(toAccount)),
    listKeys: guarded((account) => listKeys.all(account ?? null).map(toApiKey)),
    listOwnKeys: guarded((accountId, maxEnded, now) => ({
      active: listActive.all(accountId, now).map(toApiKey),
      ended: listEnded.all(accountId, now, maxEnded).map(toApiKey),
    })),
    findKey: guarded((hash) => {
      const row = findKey.get(hash);
      return row && toApiKey(row);
    }),
    findPerson: guarded((name) => {
      const row = findPerson.get(name);
      return row && { account: toAccount(row), passwordHash: row.password_hash };
    }),
    findSession: guarded((hash, now) => {
      const row = findSession.get(hash, now - sessionLifetimeMs, now - sessionIdleMs);
      return row && toSession(row);
    }),
    findLink: guarded((hash, now) => {
      const row = findLink.get(hash, now);
      return row && toLink(row);
    }),
    hasEvents: guarded(() => hasEvents.get() !== undefined),
    close() {
      end();
      connection.close();
    },
  };
}
