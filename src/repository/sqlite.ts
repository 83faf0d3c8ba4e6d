/** The embedded store: one SQLite file in WAL mode, read here and written by a thread of its own, with a connection each. */
import { statSync } from 'node:fs';
import type { OpenOptions, Repository } from './repository.ts';
import { prepareStore } from './sqlite-connection.ts';
import { startReader } from './sqlite-reader.ts';
import { startWriter } from './sqlite-writer.ts';

/** Opens the store in `file`, creating and migrating it as needed. Throws OpenError. */
export function openSqlite(file: string, options: OpenOptions): Repository {
  const { now } = options;
  prepareStore(file, options);
  const reader = startReader(file);
  const writer = startWriter(file, options);
  const at = () => now().getTime();

  return {
    // The promises are for engines that are not as quick to answer; a failure becomes a rejection.
    pets: {
      list: async (query) => reader.listPets(query),
      add: (pet, retry) => writer.write('addPet', { ...pet, retry, at: at() }, pet.name.length),
      find: async (id) => reader.findPet(id),
      version: () => reader.version(),
    },

    accounts: {
      addAccount: (name) => writer.write('addAccount', { name, at: at() }),
      listAccounts: async () => reader.listAccounts(),
      removeAccount: (name) => writer.write('removeAccount', { name }),
      addKey: (key) => writer.write('addKey', { ...key, at: at() }),
      listKeys: async (account) => reader.listKeys(account),
      findKey: async (hash) => reader.findKey(hash),
      revokeKey: (id) => writer.write('revokeKey', { id, at: at() }),
      rotateKey: (id, oldExpiresAt, secret) => writer.write('rotateKey', { id, oldExpiresAt, secret, at: at() }),
      recordUses: (uses) => writer.write('recordUses', { uses }),
    },

    messages: {
      add: (message) => writer.write('addMessage', message, message.message.length),
    },

    check: async () => void reader.version(),

    measure: () => ({
      waitingWrites: writer.waiting(),
      walBytes: statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    }),

    async close() {
      // The last connection to close is the one that can write: it moves the WAL into the file and removes it.
      reader.close();
      await writer.close();
    },
  };
}
