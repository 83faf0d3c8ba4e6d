/** People and messages, over the commands and reads that both engines run. */
import { limits } from '../core/limits.ts';
import type { Messages } from '../core/messages.ts';
import type { LinkPurpose, People } from '../core/people.ts';
import { isLinkValid } from './commands/people.ts';
import { findSession } from './commands/sessions.ts';
import type { Engine } from './engine.ts';
import { type AccountRow, accountColumns, networkOf, toAccount } from './rows.ts';
import { raw, sql } from './steps.ts';

/** `at` returns the current time in milliseconds. */
export function openPeople({ read, write }: Engine, at: () => number): People {
  return {
    async signUp(name, passwordHash, link, network) {
      const added = await write('signUp', { name, passwordHash, link, network, at: at() });
      return typeof added === 'string' ? added : toAccount(added);
    },

    async findPerson(name) {
      const [found] = await read(
        () => sql<AccountRow & { passwordHash: string | null }>`
          SELECT ${raw(accountColumns)}, password_hash AS "passwordHash" FROM account WHERE name = ${name}`,
      );
      if (!found) return undefined;
      const { passwordHash, ...account } = found;
      return { account: toAccount(account), passwordHash };
    },

    setPassword: (accountId, passwordHash, authority) =>
      write('setPassword', { accountId, passwordHash, ...authority, at: at() }),

    addSession: (hash, accountId, passwordHash) => write('addSession', { hash, accountId, passwordHash, at: at() }),

    async findSession(hash) {
      const found = await read(() => findSession(hash, at()));
      if (!found) return undefined;
      const { usedAt, network, ...account } = found;
      return { account: toAccount(account), usedAt: new Date(usedAt), network: networkOf(network) };
    },

    touchSession: (hash) => write('touchSession', { hash, at: at() }),
    endSession: (hash) => write('endSession', { hash, at: at() }),
    endSessions: (session) => write('endSessions', { session, at: at() }),

    addLink: (hash, purpose, accountId) => write('addLink', { hash, purpose, accountId, at: at() }),

    async findLink(hash) {
      const now = at();
      // The id of the account is null if the link belongs to none.
      const [found] = await read(
        () => sql<AccountRow & { purpose: LinkPurpose; expiresAt: number }>`
          SELECT purpose, expires_at AS "expiresAt", ${raw(accountColumns)}
          FROM one_time_link LEFT JOIN account ON account.id = account_id WHERE hash = ${hash}`,
      );
      if (!found) return undefined;
      const { purpose, expiresAt, ...account } = found;
      if (!isLinkValid(purpose, expiresAt, now)) return undefined;
      return { purpose, account: account.id === null ? null : toAccount(account) };
    },
  };
}

export function openMessages({ write }: Engine): Messages {
  return {
    add: (message, keyId) => write('addMessage', { ...message, keyId, maxMessages: limits.messages }),
  };
}
