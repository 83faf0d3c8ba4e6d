/** Accounts, people, messages and the trail: what the store offers of them, on the commands and queries that both engines run. */
import {
  type Accounts,
  type ApiKey,
  KeyLimitError,
  type Owner,
  type Secret,
  SessionEndedError,
} from '../core/accounts.ts';
import { limits } from '../core/limits.ts';
import type { Messages } from '../core/messages.ts';
import type { People, Trail } from '../core/people.ts';
import { type KeyRefusal, sweptKeys } from './commands/keys.ts';
import { isLinkValid } from './commands/people.ts';
import { type Engine, operator } from './engine.ts';
import { findEnded, findKey, listAccounts, listKeys, listOwnKeys } from './queries/accounts.ts';
import { findLink, findPerson, findSession, hasEvents } from './queries/people.ts';
import {
  type AccountRow,
  type ApiKeyRow,
  toAccount,
  toApiKey,
  toEvent,
  toKnownKey,
  toLink,
  toSession,
} from './rows.ts';

const hex = (hash: Buffer | undefined) => hash?.toString('hex');
const secretOf = ({ hint, hash }: Secret) => ({ hint, hash: hash.toString('hex') });
const accountOf = (row: AccountRow | undefined) => row && toAccount(row);
const ownerOf = (owner: Owner) =>
  typeof owner === 'string' ? { account: owner } : { session: owner.session.toString('hex') };

/** The key; undefined if there is none that could be changed. Throws the error of a refusal. */
function keyOf(result: ApiKeyRow | KeyRefusal): ApiKey | undefined {
  if (typeof result === 'object') return toApiKey(result);
  if (result === 'session_ended') throw new SessionEndedError();
  if (result === 'too_many') throw new KeyLimitError('active');
  if (result === 'too_many_today') throw new KeyLimitError('day');
  return undefined;
}

/** `at` returns the current time in milliseconds. */
export function openAccounts({ read, write }: Engine, at: () => number): Accounts {
  return {
    addAccount: async (name) => accountOf(await write('addAccount', { name, at: at() })),
    listAccounts: async () => (await read(listAccounts)).map(toAccount),

    async removeAccount(owner, passwordHash) {
      const removal = () => ({ ...ownerOf(owner), passwordHash, at: at() });
      // In transactions of their own: an account of an earlier release may have a million ended keys.
      while ((await write('sweepKeys', removal())) === sweptKeys);
      const row = await write('removeAccount', removal());
      if (row === 'session_ended') throw new SessionEndedError();
      return accountOf(row);
    },

    async addKey({ account, secret, name, scopes, lifetimeMs }) {
      const key = { name, scopes: scopes.join(' '), lifetimeMs, ...secretOf(secret) };
      return keyOf(await write('addKey', { ...ownerOf(account), ...key, at: at() }));
    },

    listKeys: async (account) => (await read(() => listKeys(account))).map(toApiKey),

    async listOwnKeys(accountId, maxEnded) {
      const now = at();
      const { active, ended } = await read(() => listOwnKeys(accountId, maxEnded, now));
      return { active: active.map(toApiKey), ended: ended.map(toApiKey) };
    },

    async findKey(hash, wasValid) {
      const row = await read(() => findKey(hash), wasValid);
      return row && toKnownKey(row, at());
    },

    findEnded: (ids) => {
      const now = at();
      return read(() => findEnded(ids, now), true);
    },

    revokeKey: async (id, session) => keyOf(await write('revokeKey', { id, session: hex(session), at: at() })),

    async rotateKey(id, oldExpiresAt, secret, session) {
      const rotation = {
        id,
        session: hex(session),
        oldExpiresAt: oldExpiresAt.getTime(),
        ...secretOf(secret),
        at: at(),
      };
      return keyOf(await write('rotateKey', rotation));
    },

    async recordUses(uses) {
      await write('recordUses', {
        uses: uses.map(({ lastUsedAt, ...use }) => ({ ...use, lastUsedAt: lastUsedAt.getTime() })),
      });
    },
  };
}

/** `at` returns the current time in milliseconds. */
export function openPeople({ read, write }: Engine, at: () => number): People {
  return {
    async signUp(name, passwordHash, link, network) {
      const person = { name, passwordHash, link: hex(link), network: hex(network), at: at() };
      const added = await write('signUp', person);
      return typeof added === 'string' ? added : toAccount(added);
    },

    async findPerson(name) {
      const row = await read(() => findPerson(name));
      return row && { account: toAccount(row), passwordHash: row.password_hash };
    },

    setPassword: (accountId, passwordHash, { link, session, previous } = {}) =>
      write('setPassword', { accountId, passwordHash, link: hex(link), session: hex(session), previous, at: at() }),

    addSession: (hash, accountId, passwordHash) =>
      write('addSession', { hash: hash.toString('hex'), accountId, passwordHash, at: at() }),

    async findSession(hash) {
      const now = at();
      const row = await read(() => findSession(hash, now));
      return row && toSession(row, now);
    },

    touchSession: (hash) => write('touchSession', { hash: hash.toString('hex'), at: at() }),
    endSession: (hash) => write('endSession', { hash: hash.toString('hex'), at: at() }),
    endSessions: (session) => write('endSessions', { session: session.toString('hex'), at: at() }),

    addLink: (hash, purpose, accountId) =>
      write('addLink', { hash: hash.toString('hex'), purpose, accountId, at: at() }),

    async findLink(hash) {
      const now = at();
      const row = await read(() => findLink(hash, now));
      return row && isLinkValid(row.purpose, Number(row.expires_at), now) ? toLink(row) : undefined;
    },

    async countAttempt(attempts, when) {
      const subjects = attempts.map(({ subject, max, windowMs = limits.attemptWindow }) => ({
        subject: subject.toString('hex'),
        max,
        windowMs,
      }));
      const refusal = await write('countAttempt', { subjects, at: when?.getTime() ?? at() });
      if (!refusal) return undefined;
      const { subject, since, until } = refusal;
      return { subject: Buffer.from(subject, 'hex'), since: new Date(since), until: new Date(until) };
    },

    forgetAttempts: (forgotten, when) => {
      const subjects = forgotten.map(({ subject, all }) => ({ subject: subject.toString('hex'), all }));
      return write('forgetAttempts', { subjects, at: when?.getTime() ?? at() });
    },
  };
}

/** `maxMessages`: of an account. */
export function openMessages({ write }: Engine, maxMessages = limits.messages): Messages {
  return {
    add: (message, by) =>
      write(
        'addMessage',
        { ...message, keyId: by?.keyId, maxMessages },
        { characters: message.message.length, holder: by?.holder ?? operator },
      ),
  };
}

/** `at` returns the current time in milliseconds. */
export function openTrail({ read, write }: Engine, at: () => number): Trail {
  return {
    add: (event) => write('addEvent', { ...event, at: at() }),
    // A write only if there is something to take: servers ask every few seconds.
    take: async () => ((await read(hasEvents, true)) ? (await write('takeEvents', {})).map(toEvent) : []),
  };
}
