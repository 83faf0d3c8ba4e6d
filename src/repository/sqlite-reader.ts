/** Everything that is read from the SQLite store, through a connection that cannot write. */
import type { Account, ApiKey } from '../accounts.ts';
import type { PetJson, PetPage, PetQuery } from '../pets.ts';
import { type AccountRow, type ApiKeyRow, accountColumns, apiKeyColumns, toAccount, toApiKey } from './rows.ts';
import { openError, openReader } from './sqlite-connection.ts';
import { translate } from './sqlite-errors.ts';

/** Reads are short and synchronous; they throw Failure `service_unavailable` where the store cannot answer. */
export interface Reader {
  listPets(query: PetQuery): PetPage;
  findPet(id: bigint): PetJson | undefined;
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

/** An animal's JSON begins with its id, which is below 2^53 and so exact as a number. */
function idOf(pet: PetJson): bigint {
  return BigInt(Number.parseInt(pet.slice('{"id":'.length), 10));
}

function prepareReader(connection: ReturnType<typeof openReader>): Reader {
  const sql = <Parameters extends unknown[], Row>(text: string) => connection.prepare<Parameters, Row>(text);
  // +? hides a value from the query planner: it would compile the statement anew for each other status and limit, which costs as
  // much as reading ten rows (https://sqlite.org/c3ref/c_dbconfig_defensive.html, SQLITE_DBCONFIG_ENABLE_QPSG).
  const listAll = sql<[bigint, number], PetJson>('SELECT json FROM pet WHERE id > +? ORDER BY id LIMIT +?').pluck();
  const listByStatus = sql<[string, bigint, number], PetJson>(
    'SELECT json FROM pet WHERE status = +? AND id > +? ORDER BY id LIMIT +?',
  ).pluck();
  const findPet = sql<[bigint], PetJson>('SELECT json FROM pet WHERE id = ?').pluck();
  // Changes when any other connection commits (https://sqlite.org/pragma.html#pragma_data_version), and all that write are others.
  const dataVersion = sql<[], number>('PRAGMA data_version').pluck().safeIntegers(false);
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
      if (pets.length <= limit) return { pets, next: undefined };
      pets.pop();
      return { pets, next: idOf(pets.at(-1) as PetJson) };
    }),
    findPet: guarded((id) => findPet.get(id)),
    version: guarded(() => dataVersion.get() as number),
    listAccounts: guarded(() => listAccounts.all().map(toAccount)),
    listKeys: guarded((account) => listKeys.all(account ?? null).map(toApiKey)),
    findKey: guarded((hash) => {
      const row = findKey.get(hash);
      return row && toApiKey(row);
    }),
    close: () => connection.close(),
  };
}
