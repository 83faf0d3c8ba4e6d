/** The columns that both engines select for accounts and API keys, and the conversion of their rows. */
import type { Account, ApiKey, Scope } from '../accounts.ts';

export const accountColumns = 'id, name, created_at';
export const apiKeyColumns = 'api_key.*, account.name AS account FROM api_key JOIN account ON account.id = account_id';

/** SQLite returns a bigint or a number; PostgreSQL returns decimal text. */
type StoredInteger = bigint | number | string;

export interface AccountRow {
  id: StoredInteger;
  name: string;
  created_at: StoredInteger;
}

export interface ApiKeyRow {
  id: StoredInteger;
  account_id: StoredInteger;
  account: string;
  name: string;
  hint: string;
  scopes: string;
  created_at: StoredInteger;
  lifetime_ms: StoredInteger | null;
  expires_at: StoredInteger | null;
  revoked_at: StoredInteger | null;
  last_used_at: StoredInteger | null;
  deprecated_calls: StoredInteger;
}

export function toAccount(row: AccountRow): Account {
  return { id: Number(row.id), name: row.name, createdAt: toDate(row.created_at) };
}

export function toApiKey(row: ApiKeyRow): ApiKey {
  return {
    id: Number(row.id),
    accountId: Number(row.account_id),
    account: row.account,
    name: row.name,
    hint: row.hint,
    scopes: row.scopes.split(' ') as Scope[],
    createdAt: toDate(row.created_at),
    expiresAt: row.expires_at === null ? null : toDate(row.expires_at),
    revokedAt: row.revoked_at === null ? null : toDate(row.revoked_at),
    lastUsedAt: row.last_used_at === null ? null : toDate(row.last_used_at),
    deprecatedCalls: Number(row.deprecated_calls),
  };
}

function toDate(ms: StoredInteger): Date {
  return new Date(Number(ms));
}
