/** Accounts and API keys in PostgreSQL; each method is one statement. */
import type { Accounts, ApiKey } from '../../accounts.ts';
import { type AccountRow, type ApiKeyRow, toAccount, toApiKey } from '../rows.ts';
import type { Pool } from './pool.ts';

/** `at` returns the current time in milliseconds. */
export function openAccounts(pool: Pool, at: () => number): Accounts {
  const keyOf = ([row]: ApiKeyRow[]): ApiKey | undefined => row && toApiKey(row);
  return {
    async addAccount(name) {
      const [row] = await pool.write<AccountRow[]>(
        (sql) => sql`
          INSERT INTO account (name, created_at) VALUES (${name}, ${at()}) ON CONFLICT DO NOTHING RETURNING *`,
      );
      return row && toAccount(row);
    },

    async listAccounts() {
      const rows = await pool.read<AccountRow[]>((sql) => sql`SELECT * FROM account ORDER BY id`);
      return rows.map(toAccount);
    },

    async removeAccount(name) {
      const [row] = await pool.write<AccountRow[]>((sql) => sql`DELETE FROM account WHERE name = ${name} RETURNING *`);
      return row && toAccount(row);
    },

    async addKey({ account, name, scopes, lifetimeMs, secret: { hint, hash } }) {
      const now = at();
      const rows = await pool.write<ApiKeyRow[]>(
        (sql) => sql`
          WITH added AS (
            INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at, lifetime_ms, expires_at)
            SELECT id, ${name}, ${hint}, ${hash}, ${scopes.join(' ')}, ${now}, ${lifetimeMs}, ${lifetimeMs && now + lifetimeMs}
            FROM account WHERE name = ${account} RETURNING *
          )
          SELECT added.*, account.name AS account FROM added JOIN account ON account.id = account_id`,
      );
      return keyOf(rows);
    },

    async listKeys(account) {
      const rows = await pool.read<ApiKeyRow[]>(
        (sql) => sql`
          SELECT api_key.*, account.name AS account FROM api_key JOIN account ON account.id = account_id
          WHERE account.name = coalesce(${account ?? null}, account.name) ORDER BY api_key.id`,
      );
      return rows.map(toApiKey);
    },

    async findKey(hash) {
      const rows = await pool.read<ApiKeyRow[]>(
        (sql) => sql`
          SELECT api_key.*, account.name AS account FROM api_key JOIN account ON account.id = account_id
          WHERE hash = ${hash}`,
      );
      return keyOf(rows);
    },

    async revokeKey(id) {
      const rows = await pool.write<ApiKeyRow[]>(
        (sql) => sql`
          WITH revoked AS (
            UPDATE api_key SET revoked_at = coalesce(revoked_at, ${at()}) WHERE id = ${id} RETURNING *
          )
          SELECT revoked.*, account.name AS account FROM revoked JOIN account ON account.id = account_id`,
      );
      return keyOf(rows);
    },

    async rotateKey(id, oldExpiresAt, { hint, hash }) {
      const now = at();
      const rows = await pool.write<ApiKeyRow[]>(
        (sql) => sql`
          WITH old AS (
            UPDATE api_key SET expires_at = least(expires_at, ${oldExpiresAt.getTime()})
            WHERE id = ${id} AND revoked_at IS NULL RETURNING *
          ), added AS (
            INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at, lifetime_ms, expires_at)
            SELECT account_id, name, ${hint}, ${hash}, scopes, ${now}::bigint, lifetime_ms, ${now}::bigint + lifetime_ms
            FROM old RETURNING *
          )
          SELECT added.*, account.name AS account FROM added JOIN account ON account.id = account_id`,
      );
      return keyOf(rows);
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
