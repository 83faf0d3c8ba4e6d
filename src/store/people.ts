/** People and messages, over the commands and queries that both engines run. */
import { limits } from '../core/limits.ts';
import type { Messages } from '../core/messages.ts';
import type { People } from '../core/people.ts';
import { isLinkValid } from './commands/people.ts';
import type { Engine } from './engine.ts';
import { findLink, findPerson, findSession } from './queries/people.ts';
import { networkOf, toAccount } from './rows.ts';

const hex = (hash: Buffer | undefined) => hash?.toString('hex');

/** `at` returns the current time in milliseconds. */
export function openPeople({ read, write }: Engine, at: () => number): People {
  return {
    async signUp(name, passwordHash, link, network) {
      const person = { name, passwordHash, link: hex(link), network: hex(network), at: at() };
      const added = await write('signUp', person);
      return typeof added === 'string' ? added : toAccount(added);
    },

    async findPerson(name) {
      const found = await read(() => findPerson(name));
      if (!found) return undefined;
      const { passwordHash, ...account } = found;
      return { account: toAccount(account), passwordHash };
    },

    setPassword: (accountId, passwordHash, { link, session, previous } = {}) =>
      write('setPassword', { accountId, passwordHash, link: hex(link), session: hex(session), previous, at: at() }),

    addSession: (hash, accountId, passwordHash) =>
      write('addSession', { hash: hash.toString('hex'), accountId, passwordHash, at: at() }),

    async findSession(hash) {
      const now = at();
      const found = await read(() => findSession(hash, now));
      if (!found) return undefined;
      const { usedAt, network, ...account } = found;
      return { account: toAccount(account), usedAt: new Date(usedAt), network: networkOf(network) };
    },

    touchSession: (hash) => write('touchSession', { hash: hash.toString('hex'), at: at() }),
    endSession: (hash) => write('endSession', { hash: hash.toString('hex'), at: at() }),
    endSessions: (session) => write('endSessions', { session: session.toString('hex'), at: at() }),

    addLink: (hash, purpose, accountId) =>
      write('addLink', { hash: hash.toString('hex'), purpose, accountId, at: at() }),

    async findLink(hash) {
      const now = at();
      const found = await read(() => findLink(hash, now));
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
