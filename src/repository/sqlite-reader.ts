/** Everything that is read from the SQLite store, through a connection that cannot write. */
import type { Account, ApiKey } from '../accounts.ts';
import type { Pet, PetPage, PetQuery } from '../pets.ts';
import { openError, openReader } from './sqlite-connection.ts';
import { translate } from './sqlite-errors.ts';
import {
  type AccountRow,
  type ApiKeyRow,
  accountColumns,
  apiKeyColumns,
  petColumns,
  toAccount,
  toApiKey,
} from './sqlite-rows.ts';

/** Reads are short and synchronous; they throw Failure `service_unavailable` where the store cannot answer. */
export interface Reader {
  listPets(query: PetQuery): PetPage;
  findPet(id: bigint): Pet | undefined;
  version(): number;
  listAccounts(): Account[];
  listKeys(account?: string): ApiKey[];
  findKey(hash: Buffer): ApiKey | undefined;
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

function prepareReader(connection: ReturnType<typeof openReader>): Reader {
  const sql = <Parameters extends unknown[], Row>(text: string) => connection.prepare<Parameters, Row>(text);
  // +? hides a value from the query planner: it would compile the statement anew for each other status and limit, which costs as
  // much as reading ten rows (https://sqlite.org/c3ref/c_dbconfig_defensive.html, SQLITE_DBCONFIG_ENABLE_QPSG).
  const listAll = sql<[bigint, number], Pet>(`SELECT ${petColumns} FROM pet WHERE id > +? ORDER BY id LIMIT +?`);
  const listByStatus = sql<[string, bigint, number], Pet>(
    `SELECT ${petColumns} FROM pet WHERE status = +? AND id > +? ORDER BY id LIMIT +?`,
  );
  const findPet = sql<[bigint], Pet>(`SELECT ${petColumns} FROM pet WHERE id = ?`);
  // Changes when any other connection commits (https://sqlite.org/pragma.html#pragma_data_version), and all that write are others.
  const dataVersion = sql<[], bigint>('PRAGMA data_version').pluck();
  const listAccounts = sql<[], AccountRow>(`SELECT ${accountColumns} FROM account ORDER BY id`);
  const listKeys = sql<[string | null], ApiKeyRow>(
    `SELECT ${apiKeyColumns} WHERE account.name = coalesce(?, account.name) ORDER BY api_key.id`,
  );
  const findKey = sql<[Buffer], ApiKeyRow>(`SELECT ${apiKeyColumns} WHERE hash = ?`);

  function guarded<Input extends unknown[], Output>(query: (...input: Input) => Output): (...input: Input) => Output {
    return (...input) => {
      try {
        return query(...input);
      } catch (error) {
        throw translate(error);
      }
    };
  }

  return {
    listPets: guarded(({ limit, status, after }) => {
      // One row more than asked for tells whether a next page exists.
      const pets = status ? listByStatus.all(status, after, limit + 1) : listAll.all(after, limit + 1);
      const more = pets.length > limit;
      if (more) pets.pop();
      return { pets, more };
    }),
    findPet: guarded((id) => findPet.get(id)),
    version: guarded(() => Number(dataVersion.get())),
    listAccounts: guarded(() => listAccounts.all().map(toAccount)),
    listKeys: guarded((account) => listKeys.all(account ?? null).map(toApiKey)),
    findKey: guarded((hash) => {
      const row = findKey.get(hash);
      return row && toApiKey(row);
    }),
    close: () => connection.close(),
  };
}
