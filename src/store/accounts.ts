/** Accounts and API keys, over the commands and reads that both engines run. */
import { type Accounts, type KnownKey, type Refusal, RefusedError, type Secret } from '../core/accounts.ts';
import { type DayOfUse, dateOf, dayOf, type KeyError, type KeyUse, keptErrors } from '../core/usage.ts';
import type { Engine } from './engine.ts';
import {
  type AccountRow,
  type ActiveKeyRow,
  type ApiKeyRow,
  accountColumns,
  apiKeyColumns,
  isActive,
  type KnownKeyRow,
  knownKeyColumns,
  networkOf,
  type OwnKeyRow,
  toAccount,
  toApiKey,
} from './rows.ts';
import { raw, type Steps, sql } from './steps.ts';

const ownKeyColumns = `
  (SELECT hint FROM rotated_key JOIN api_key AS old ON old.id = key_id WHERE successor_id = api_key.id) AS replaces,
  (SELECT hint FROM rotated_key JOIN api_key AS new ON new.id = successor_id WHERE key_id = api_key.id) AS "replacedBy",
  (SELECT successor_id FROM rotated_key WHERE key_id = api_key.id) AS "replacedById",
  ${apiKeyColumns}`;

const requests = 'succeeded + client_errors + rate_limited + server_errors';

interface UsageRow extends Omit<DayOfUse, 'day' | 'lastError'> {
  day: number;
  errorCode: string | null;
  errorAt: number | null;
}

/** Without the key itself. */
const secretOf = ({ hint, hash }: Secret) => ({ hint, hash });
const accountOf = (row: AccountRow | undefined) => row && toAccount(row);
const countsOf = ({ lastUsedAt, errors = [], ...counts }: KeyUse) => ({
  succeeded: 0,
  clientErrors: 0,
  rateLimited: 0,
  serverErrors: 0,
  ...counts,
  lastUsedAt: lastUsedAt.getTime(),
  errors: errors.map((error) => ({ ...error, at: error.at.getTime() })),
});

function toKnownKey({ network, ...key }: KnownKeyRow): KnownKey {
  return { ...toApiKey(key), network: networkOf(network) };
}

function toDayOfUse({ day, errorCode: code, errorAt: at, ...counts }: UsageRow): DayOfUse {
  return { day: dateOf(day), ...counts, lastError: code === null || at === null ? null : { code, at: new Date(at) } };
}

/** Throws RefusedError. */
function done<Outcome extends object>(outcome: Outcome | Refusal | undefined): Outcome | undefined {
  if (typeof outcome === 'string') throw new RefusedError(outcome);
  return outcome;
}

const keyOf = (row: ApiKeyRow | undefined) => row && toApiKey(row);

/** `hash`: SHA-256 of the key. PostgreSQL reads the keys of a turn together. */
export function* selectKey(hash: Buffer): Steps<KnownKeyRow | undefined> {
  const [key] = yield* sql<KnownKeyRow>`SELECT ${raw(knownKeyColumns)} WHERE hash = ${hash}`;
  return key;
}

const pageRows = 1000;

/** Reads all rows in pages of at most `pageRows`, because the time of a statement is limited. `read` returns a page, from an id on. */
async function inPages<Row extends { id: number }>(read: (id: number) => Promise<Row[]>): Promise<Row[]> {
  const all: Row[] = [];
  for (;;) {
    const page = await read((all.at(-1)?.id ?? 0) + 1);
    all.push(...page);
    if (page.length < pageRows) return all;
  }
}

/** `at` returns the current time in milliseconds. */
export function openAccounts({ read, write, findKeyRow }: Engine, at: () => number): Accounts {
  const keysFrom: Accounts['keysFrom'] = async (id, limit) => {
    const rows = await read(
      () => sql<ApiKeyRow>`SELECT ${raw(apiKeyColumns)} WHERE api_key.id >= ${id} ORDER BY api_key.id LIMIT ${limit}`,
    );
    return rows.map(toApiKey);
  };
  const accountsFrom = async (id: number) => {
    const rows = await read(
      () => sql<AccountRow>`SELECT ${raw(accountColumns)} FROM account WHERE id >= ${id} ORDER BY id LIMIT ${pageRows}`,
    );
    return rows.map(toAccount);
  };
  return {
    addAccount: async (name) => accountOf(await write('addAccount', { name, at: at() })),
    listAccounts: () => inPages(accountsFrom),

    async removeAccount(owner, passwordHash) {
      return accountOf(done(await write('removeAccount', { owner, passwordHash, at: at() })));
    },

    async addKey({ account: owner, secret, scopes, ...given }) {
      const key = { ...given, owner, scopes: scopes.join(' '), ...secretOf(secret), at: at() };
      return keyOf(done(await write('addKey', key)));
    },

    async listKeys(account) {
      if (account === undefined) return inPages((id) => keysFrom(id, pageRows));
      const rows = await read(
        () => sql<ApiKeyRow>`SELECT ${raw(apiKeyColumns)} WHERE account.name = ${account} ORDER BY api_key.id`,
      );
      return rows.map(toApiKey);
    },
    keysFrom,

    async listOwnKeys(accountId, maxEnded) {
      const now = at();
      const today = dayOf(now);
      // The counts of a day are one row of each key, found by the primary key. +: SQLite then uses the index of active keys, and sorts them.
      const active = await read(
        () => sql<ActiveKeyRow>`
          SELECT
            coalesce((SELECT ${raw(requests)} FROM api_key_usage WHERE key_id = api_key.id AND day = ${today}), 0) AS today,
            coalesce((SELECT deprecated_calls FROM api_key_usage WHERE key_id = api_key.id AND day = ${today}), 0)
              AS "deprecatedToday",
            ${raw(ownKeyColumns)} WHERE account_id = ${accountId} AND ${raw(isActive)} ${now} ORDER BY +api_key.id DESC`,
      );
      const ended = await read(
        () => sql<OwnKeyRow>`
          SELECT ${raw(ownKeyColumns)}
          WHERE account_id = ${accountId} AND NOT (${raw(isActive)} ${now}) ORDER BY api_key.id DESC LIMIT ${maxEnded}`,
      );
      return { active: active.map(toApiKey), ended: ended.map(toApiKey) };
    },

    async findKey(hash, wasValid) {
      const row = await findKeyRow(hash, wasValid);
      return row && toKnownKey(row);
    },

    revokeKey: async (id, session) => keyOf(done(await write('revokeKey', { id, session, at: at() }))),

    async rotateKey(id, oldExpiresAt, secret, person) {
      const rotation = { id, ...person, oldExpiresAt: oldExpiresAt.getTime(), ...secretOf(secret), at: at() };
      const rotated = done(await write('rotateKey', rotation));
      return rotated && { key: toApiKey(rotated.key), old: toApiKey(rotated.old) };
    },

    async changeKey(id, { scopes, expiresAt, ...change }, session) {
      const narrowed = { ...change, scopes: scopes.join(' '), expiresAt: expiresAt?.getTime() ?? null };
      return keyOf(done(await write('changeKey', { id, session, ...narrowed, at: at() })));
    },

    async recordUses(uses) {
      await write('recordUses', { uses: uses.map(countsOf), at: at() });
    },

    async listUsage(id, days) {
      const since = dayOf(at()) - days;
      const rows = await read(
        () => sql<UsageRow>`
          SELECT day, succeeded, client_errors AS "clientErrors", rate_limited AS "rateLimited", server_errors AS "serverErrors",
            deprecated_calls AS "deprecatedCalls", error_code AS "errorCode", error_at AS "errorAt"
          FROM api_key_usage WHERE key_id = ${id} AND day > ${since} ORDER BY day`,
      );
      return rows.map(toDayOfUse);
    },

    async listErrors(id) {
      const rows = await read(
        () => sql<Omit<KeyError, 'at'> & { at: number }>`
          SELECT at, operation, code, request_id AS "requestId" FROM api_key_error
          WHERE key_id = ${id} ORDER BY at DESC, request_id DESC LIMIT ${keptErrors}`,
      );
      return rows.map((row) => ({ ...row, at: new Date(row.at) }));
    },
  };
}
