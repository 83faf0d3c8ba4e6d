/** Accounts and API keys, over the commands and queries that both engines run. */
import {
  type Accounts,
  type ApiKey,
  KeyLimitError,
  type Owner,
  type OwnKey,
  type Secret,
  SessionEndedError,
} from '../core/accounts.ts';
import { dayOf, type KeyUse } from '../core/usage.ts';
import type { KeyRefusal } from './commands/keys.ts';
import type { Engine } from './engine.ts';
import { listAccounts, listKeys, listOwnKeys } from './queries/accounts.ts';
import { listOwnUsage, listUsage } from './queries/usage.ts';
import {
  type AccountRow,
  type ApiKeyRow,
  type OwnKeyRow,
  toAccount,
  toApiKey,
  toDayOfUse,
  toKnownKey,
} from './rows.ts';

const secretOf = ({ hint, hash }: Secret) => ({ hint, hash: hash.toString('hex') });
const accountOf = (row: AccountRow | undefined) => row && toAccount(row);
const countsOf = ({ lastUsedAt, lastError, ...counts }: KeyUse) => ({
  ...{ succeeded: 0, clientErrors: 0, rateLimited: 0, serverErrors: 0, ...counts },
  lastUsedAt: lastUsedAt.getTime(),
  error: lastError?.code ?? null,
  errorAt: lastError?.at.getTime() ?? null,
});
const ownerOf = (owner: Owner) =>
  typeof owner === 'string' ? { account: owner } : { session: owner.session.toString('hex') };

/** The key; undefined if there is none that could be changed. Throws the error of a refusal. */
function keyOf(result: ApiKeyRow | KeyRefusal): ApiKey | undefined {
  if (typeof result === 'object') return toApiKey<ApiKey>(result);
  if (result === 'session_ended') throw new SessionEndedError();
  if (result === 'too_many') throw new KeyLimitError('active');
  if (result === 'too_many_today') throw new KeyLimitError('day');
  return undefined;
}

/** `at` returns the current time in milliseconds. */
export function openAccounts({ read, write, findKey }: Engine, at: () => number): Accounts {
  return {
    addAccount: async (name) => accountOf(await write('addAccount', { name, at: at() })),
    listAccounts: async () => (await read(listAccounts)).map(toAccount),

    async removeAccount(owner, passwordHash) {
      const row = await write('removeAccount', { ...ownerOf(owner), passwordHash, at: at() });
      if (row === 'session_ended') throw new SessionEndedError();
      return accountOf(row);
    },

    async addKey({ account, secret, name, scopes, lifetimeMs }) {
      const key = { name, scopes: scopes.join(' '), lifetimeMs, ...secretOf(secret) };
      return keyOf(await write('addKey', { ...ownerOf(account), ...key, at: at() }));
    },

    listKeys: async (account) => (await read(() => listKeys(account))).map((row) => toApiKey<ApiKey>(row)),

    async listOwnKeys(accountId, maxEnded) {
      const now = at();
      const { active, ended } = await read(() => listOwnKeys(accountId, maxEnded, now));
      const keysOf = (rows: OwnKeyRow[]) => rows.map((row) => toApiKey<OwnKey>(row));
      return { active: keysOf(active), ended: keysOf(ended) };
    },

    async findKey(hash, wasValid) {
      const row = await findKey(hash, wasValid);
      return row && toKnownKey(row);
    },

    revokeKey: async (id, session) =>
      keyOf(await write('revokeKey', { id, session: session?.toString('hex'), at: at() })),

    async rotateKey(id, oldExpiresAt, secret, session) {
      const rotation = {
        id,
        session: session?.toString('hex'),
        oldExpiresAt: oldExpiresAt.getTime(),
        ...secretOf(secret),
        at: at(),
      };
      return keyOf(await write('rotateKey', rotation));
    },

    async recordUses(uses) {
      await write('recordUses', { uses: uses.map(countsOf), at: at() });
    },

    async listUsage(id, days) {
      const since = dayOf(at()) - days;
      return (await read(() => listUsage(id, since))).map(toDayOfUse);
    },

    async listOwnUsage(accountId, days) {
      const now = at();
      const rows = await read(() => listOwnUsage(accountId, dayOf(now) - days, now));
      const byKey = Map.groupBy(rows, ({ keyId }) => keyId);
      return new Map([...byKey].map(([id, ofKey]) => [id, ofKey.map(toDayOfUse)]));
    },
  };
}
