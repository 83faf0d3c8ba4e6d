/** Accounts and API keys in PostgreSQL; each method is one statement. */
import { type Accounts, type ApiKey, KeyLimitError, maxActiveKeys } from '../../accounts.ts';
import {
  type AccountRow,
  type ApiKeyRow,
  accountColumns,
  apiKeyColumns,
  isActive,
  toAccount,
  toApiKey,
} from '../rows.ts';
import type { Pool } from './pool.ts';
import { raw } from './sql.ts';

/** The functions add_key and rotate_key return a null key if the account has `maxActiveKeys` active keys. */
type AddedKeyRow = ApiKeyRow | { id: null };

function addedKeyOf([row]: AddedKeyRow[]): ApiKey | undefined {
  if (row?.id === null) throw new KeyLimitError();
  return row && toApiKey(row);
}

/** `at` returns the current time in milliseconds. */
export function openAccounts(pool: Pool, at: () => number): Accounts {
  const keyOf = ([row]: ApiKeyRow[]): ApiKey | undefined => row && toApiKey(row);
  return {
    async addAccount(name) {
      const [row] = await pool.write<AccountRow[]>(
        (sql) => sql`
          INSERT INTO account (name, created_at) VALUES (${name}, ${at()}) ON CONFLICT DO NOTHING
          RETURNING ${raw(accountColumns)}`,
      );
      return row && toAccount(row);
    },

    async listAccounts() {
      const rows = await pool.read<AccountRow[]>((sql) => sql`SELECT ${raw(accountColumns)} FROM account ORDER BY id`);
      return rows.map(toAccount);
    },

    async removeAccount(name, passwordHash) {
      const [row] = await pool.write<AccountRow[]>(
        (sql) => sql`
          DELETE FROM account
          WHERE name = ${name} AND password_hash IS NOT DISTINCT FROM coalesce(${passwordHash ?? null}, password_hash)
          RETURNING ${raw(accountColumns)}`,
      );
      return row && toAccount(row);
    },

    async addKey({ account, name, scopes, lifetimeMs, secret: { hint, hash } }) {
      const rows = await pool.write<AddedKeyRow[]>(
        (sql) => sql`
          SELECT (key).*, account FROM add_key(
            ${account}, ${name}, ${hint}, ${hash}, ${scopes.join(' ')}, ${lifetimeMs}, ${at()}, ${maxActiveKeys}
          )`,
      );
      return addedKeyOf(rows);
    },

    async listKeys(account) {
      const rows = await pool.read<ApiKeyRow[]>(
        (sql) => sql`
          SELECT ${raw(apiKeyColumns)}
          WHERE account.name = coalesce(${account ?? null}, account.name) ORDER BY api_key.id`,
      );
      return rows.map(toApiKey);
    },

    async listOwnKeys(accountId, maxEnded) {
      const now = at();
      const [active, ended] = await Promise.all([
        pool.read<ApiKeyRow[]>(
          (sql) => sql`
            SELECT ${raw(apiKeyColumns)}
            WHERE account_id = ${accountId} AND ${raw(isActive)} ${now}
            ORDER BY api_key.id DESC`,
        ),
        pool.read<ApiKeyRow[]>(
          (sql) => sql`
            SELECT ${raw(apiKeyColumns)}
            WHERE account_id = ${accountId} AND NOT (${raw(isActive)} ${now})
            ORDER BY api_key.id DESC LIMIT ${maxEnded}`,
        ),
      ]);
      return { active: active.map(toApiKey), ended: ended.map(toApiKey) };
    },

    async findKey(hash) {
      const rows = await pool.read<ApiKeyRow[]>(
        (sql) => sql`
          SELECT ${raw(apiKeyColumns)}
          WHERE hash = ${hash}`,
      );
      return keyOf(rows);
    },

    async revokeKey(id, accountId) {
      const rows = await pool.write<ApiKeyRow[]>(
        (sql) => sql`
          WITH revoked AS (
            UPDATE api_key SET revoked_at = coalesce(revoked_at, ${at()})
            WHERE id = ${id} AND account_id = coalesce(${accountId ?? null}, account_id) RETURNING *
          )
          SELECT revoked.*, account.name AS account FROM revoked JOIN account ON account.id = account_id`,
      );
      return keyOf(rows);
    },

    async rotateKey(id, oldExpiresAt, { hint, hash }, accountId) {
      const rows = await pool.write<AddedKeyRow[]>(
        (sql) => sql`
          SELECT (key).*, account FROM rotate_key(
            ${id}, ${accountId ?? null}, ${oldExpiresAt.getTime()}, ${hint}, ${hash}, ${at()}, ${maxActiveKeys}
          )`,
      );
      return addedKeyOf(rows);
    },

    async recordUses(uses) {
      const column = (read: (use: (typeof uses)[number]) => number) => `{${uses.map(read).join()}}`;
      await pool.write(
        (sql) => sql`
          UPDATE api_key SET
            last_used_at = greatest(last_used_at, used_at), deprecated_calls = deprecated_calls + calls
          FROM unnest(${column(({ id }) => id)}::bigint[], ${column(({ lastUsedAt }) => lastUsedAt.getTime())}::bigint[],
            ${column(({ deprecatedCalls }) => deprecatedCalls)}::bigint[]) AS used (used_id, used_at, calls)
          WHERE id = used_id`,
      );
    },
  };
}
