/** The columns that are read, and what becomes of a row. Integers arrive as the engine reads them, or as their decimals. */
import type { Account, ApiKey, Scope } from '../accounts.ts';

export const accountColumns = 'id, name, created_at';
export const apiKeyColumns = 'api_key.*, account.name AS account FROM api_key JOIN account ON account.id = account_id';

type Whole = bigint | number | string;

export interface AccountRow {
  id: Whole;
  name: string;
  created_at: Whole;
}

export interface ApiKeyRow {
  id: Whole;
  account_id: Whole;
  account: string;
  name: string;
  hint: string;
  scopes: string;
  created_at: Whole;
  lifetime_ms: Whole | null;
  expires_at: Whole | null;
  revoked_at: Whole | null;
  last_used_at: Whole | null;
  deprecated_calls: Whole;
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

function toDate(ms: Whole): Date {
  return new Date(Number(ms));
}
