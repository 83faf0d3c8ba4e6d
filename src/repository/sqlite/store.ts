/** The embedded store: one SQLite file in WAL mode. This thread reads it and a worker thread writes it, each on its own connection. */
import { statfsSync, statSync } from 'node:fs';
import { KeyLimitError, type Secret } from '../../accounts.ts';
import type { Retry } from '../../idempotency.ts';
import { type Addition, type NewPet, petJson } from '../../pets.ts';
import { type AccountRow, type ApiKeyRow, toAccount, toApiKey, toEvent } from '../rows.ts';
import type { OpenOptions, Repository } from '../store.ts';
import { prepareStore } from './connection.ts';
import { startReader } from './reader.ts';
import { startWriter } from './writer.ts';

const accountOf = (row: AccountRow | undefined) => row && toAccount(row);
function keyOf(row: ApiKeyRow | 'too_many' | undefined) {
  if (row === 'too_many') throw new KeyLimitError();
  return row && toApiKey(row);
}

const hexOf = ({ hint, hash }: Secret) => ({ hint, hash: hash.toString('hex') });

/** Undefined on a file system that does not tell. */
function measureDisk(file: string): { size: number; available: number } | undefined {
  try {
    const { bsize, blocks, bavail } = statfsSync(file);
    return { size: bsize * blocks, available: bsize * bavail };
  } catch {
    return undefined;
  }
}

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
      removeAccount: async (name, passwordHash) =>
        accountOf(await writer.write('removeAccount', { name, passwordHash })),
      async addKey({ secret, ...key }) {
        return keyOf(await writer.write('addKey', { ...key, ...hexOf(secret), at: at() }));
      },
      listKeys: async (account) => reader.listKeys(account),
      listOwnKeys: async (accountId, maxEnded) => reader.listOwnKeys(accountId, maxEnded, at()),
      findKey: async (hash) => reader.findKey(hash),
      revokeKey: async (id, accountId) => keyOf(await writer.write('revokeKey', { id, accountId, at: at() })),
      async rotateKey(id, oldExpiresAt, secret, accountId) {
        const rotation = { id, accountId, oldExpiresAt: oldExpiresAt.getTime(), ...hexOf(secret), at: at() };
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

    people: {
      async signUp(name, passwordHash, link) {
        const added = await writer.write('signUp', { name, passwordHash, link: link?.toString('hex'), at: at() });
        return typeof added === 'string' ? added : toAccount(added);
      },
      findPerson: async (name) => reader.findPerson(name),
      setPassword: (accountId, passwordHash, link, previous) =>
        writer.write('setPassword', { accountId, passwordHash, link: link?.toString('hex'), previous, at: at() }),
      addSession: (hash, accountId, passwordHash) =>
        writer.write('addSession', { hash: hash.toString('hex'), accountId, passwordHash, at: at() }),
      findSession: async (hash) => reader.findSession(hash, at()),
      touchSession: (hash) => writer.write('touchSession', { hash: hash.toString('hex'), at: at() }),
      endSession: (hash) => writer.write('endSession', { hash: hash.toString('hex') }),
      endSessions: (accountId) => writer.write('endSessions', { accountId }),
      addLink: (hash, purpose, accountId) =>
        writer.write('addLink', { hash: hash.toString('hex'), purpose, accountId, at: at() }),
      findLink: async (hash) => reader.findLink(hash, at()),
      async countAttempt(subjects, when) {
        const input = subjects.map(({ subject, max }) => ({ subject: subject.toString('hex'), max }));
        const until = await writer.write('countAttempt', { subjects: input, at: when?.getTime() ?? at() });
        return until === undefined ? undefined : new Date(until);
      },
      forgetAttempts: (subjects, when) => {
        const input = subjects.map(({ subject, all }) => ({ subject: subject.toString('hex'), all }));
        return writer.write('forgetAttempts', { subjects: input, at: when?.getTime() ?? at() });
      },
    },

    trail: {
      add: (event) => writer.write('addEvent', { ...event, at: at() }),
      // A write only if there is something to take: servers ask every few seconds.
      take: async () => (reader.hasEvents() ? (await writer.write('takeEvents', {})).map(toEvent) : []),
    },

    check: async () => void reader.state(),

    measure: () => ({
      waitingWrites: writer.waiting(),
      walBytes: statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0,
      ...writer.failures(),
      disk: measureDisk(file),
    }),

    async close() {
      // The writer must close last: only a connection that can write checkpoints and removes the WAL.
      reader.close();
      await writer.close();
    },
  };
}
