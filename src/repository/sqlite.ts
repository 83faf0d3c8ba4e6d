/** The embedded store: one SQLite file in WAL mode, read and written through a connection each. */
import type { Pet, PetPage } from '../pets.ts';
import type { OpenOptions, Repository } from './repository.ts';
import { prepareCommands } from './sqlite-commands.ts';
import { openReader, openWriter, translate } from './sqlite-connection.ts';
import {
  type AccountRow,
  type ApiKeyRow,
  accountColumns,
  apiKeyColumns,
  petColumns,
  toAccount,
  toApiKey,
} from './sqlite-rows.ts';
import { createWriter } from './sqlite-writer.ts';

/** Opens the store in `file`, creating and migrating it as needed. Throws OpenError. */
export function openSqlite(file: string, options: OpenOptions): Repository {
  const { now } = options;
  const writing = openWriter(file, options);
  const reading = openReader(file);
  const transaction = writing.transaction((run: () => unknown[]) => run());
  const writer = createWriter(prepareCommands(writing), (run) => transaction.immediate(run));
  const at = () => now().getTime();

  const listAll = reading.prepare<[bigint, number], Pet>(
    `SELECT ${petColumns} FROM pet WHERE id > ? ORDER BY id LIMIT ?`,
  );
  const listByStatus = reading.prepare<[string, bigint, number], Pet>(
    `SELECT ${petColumns} FROM pet WHERE status = ? AND id > ? ORDER BY id LIMIT ?`,
  );
  const findPet = reading.prepare<[bigint], Pet>(`SELECT ${petColumns} FROM pet WHERE id = ?`);
  const listAccounts = reading.prepare<[], AccountRow>(`SELECT ${accountColumns} FROM account ORDER BY id`);
  const listKeys = reading.prepare<[string | null], ApiKeyRow>(
    `SELECT ${apiKeyColumns} WHERE account.name = coalesce(?, account.name) ORDER BY api_key.id`,
  );
  const findKey = reading.prepare<[Buffer], ApiKeyRow>(`SELECT ${apiKeyColumns} WHERE hash = ?`);

  /** Reads are short and synchronous; the promise is for engines that are neither. */
  async function read<Result>(query: () => Result): Promise<Result> {
    try {
      return query();
    } catch (error) {
      throw translate(error);
    }
  }

  return {
    pets: {
      list({ limit, status, after }): Promise<PetPage> {
        return read(() => {
          // One row more than asked for tells whether a next page exists.
          const pets = status ? listByStatus.all(status, after, limit + 1) : listAll.all(after, limit + 1);
          const more = pets.length > limit;
          if (more) pets.pop();
          return { pets, more };
        });
      },
      add: (pet, retry) => writer.write('addPet', { pet, retry, at: at() }),
      find: (id) => read(() => findPet.get(id)),
    },

    accounts: {
      addAccount: (name) => writer.write('addAccount', { name, at: at() }),
      listAccounts: () => read(() => listAccounts.all().map(toAccount)),
      removeAccount: (name) => writer.write('removeAccount', { name }),
      addKey: (key) => writer.write('addKey', { ...key, at: at() }),
      listKeys: (account) => read(() => listKeys.all(account ?? null).map(toApiKey)),
      findKey: (hash) =>
        read(() => {
          const row = findKey.get(hash);
          return row && toApiKey(row);
        }),
      revokeKey: (id) => writer.write('revokeKey', { id, at: at() }),
      rotateKey: (id, oldExpiresAt, secret) => writer.write('rotateKey', { id, oldExpiresAt, secret, at: at() }),
      recordUses: (uses) => writer.write('recordUses', { uses }),
    },

    messages: {
      add: (message) => writer.write('addMessage', message),
    },

    async close() {
      writer.flush();
      reading.close();
      writing.close();
    },
  };
}
