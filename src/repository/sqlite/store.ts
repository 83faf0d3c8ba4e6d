/** The embedded store: one SQLite file in WAL mode. This thread reads it and a worker thread writes it, each on its own connection. */
import { statSync } from 'node:fs';
import type { Secret } from '../../accounts.ts';
import type { Retry } from '../../idempotency.ts';
import { type Addition, type NewPet, petJson } from '../../pets.ts';
import { type AccountRow, type ApiKeyRow, toAccount, toApiKey } from '../rows.ts';
import type { OpenOptions, Repository } from '../store.ts';
import { prepareStore } from './connection.ts';
import { startReader } from './reader.ts';
import { startWriter } from './writer.ts';

const accountOf = (row: AccountRow | undefined) => row && toAccount(row);
const keyOf = (row: ApiKeyRow | undefined) => row && toApiKey(row);
const hexOf = ({ hint, hash }: Secret) => ({ hint, hash: hash.toString('hex') });

/** Opens the store in `file`; creates or migrates it if needed. Throws OpenError. */
export function openSqlite(file: string, options: OpenOptions): Repository {
  const { now } = options;
  prepareStore(file, options);
  const reader = startReader(file);
  const writer = startWriter(file, {
    ...options,
    onCommit(writes) {
      reader.refresh();
      options.onCommit?.(writes);
    },
  });
  const at = () => now().getTime();

  async function addPet({ name, categoryId, status }: NewPet, retry?: Retry): Promise<Addition> {
    const input = { name, categoryId: String(categoryId), status, retry, at: at() };
    const outcome = await writer.write('addPet', input, name.length);
    if (outcome.outcome === 'reused') return outcome;
    const { id } = outcome;
    const pet = outcome.outcome === 'replayed' ? outcome.pet : petJson(id, name, categoryId, status);
    return { outcome: outcome.outcome, id: BigInt(id), pet };
  }

  return {
    pets: {
      list: reader.listPets,
      add: addPet,
      find: reader.findPet,
      state: reader.state,
      refresh: reader.refresh,
    },

    accounts: {
      addAccount: async (name) => accountOf(await writer.write('addAccount', { name, at: at() })),
      listAccounts: async () => reader.listAccounts(),
      removeAccount: async (name) => accountOf(await writer.write('removeAccount', { name })),
      async addKey({ secret, ...key }) {
        return keyOf(await writer.write('addKey', { ...key, ...hexOf(secret), at: at() }));
      },
      listKeys: async (account) => reader.listKeys(account),
      findKey: async (hash) => reader.findKey(hash),
      revokeKey: async (id) => keyOf(await writer.write('revokeKey', { id, at: at() })),
      async rotateKey(id, oldExpiresAt, secret) {
        const rotation = { id, oldExpiresAt: oldExpiresAt.getTime(), ...hexOf(secret), at: at() };
        return keyOf(await writer.write('rotateKey', rotation));
      },
      recordUses: async (uses) => {
        await writer.write('recordUses', {
          uses: uses.map(({ lastUsedAt, ...use }) => ({ ...use, lastUsedAt: lastUsedAt.getTime() })),
        });
      },
    },

    messages: {
      add: async (message) => void (await writer.write('addMessage', message, message.message.length)),
    },

    check: async () => void reader.state(),

    measure: () => ({
      waitingWrites: writer.waiting(),
      walBytes: statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    }),

    async close() {
      // The writer must close last: only a connection that can write checkpoints and removes the WAL.
      reader.close();
      await writer.close();
    },
  };
}
