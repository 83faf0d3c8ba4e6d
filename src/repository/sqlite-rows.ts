/** The columns that are read, and what becomes of a row. Integers arrive as BigInt. */
import type { Account, ApiKey, Scope } from '../accounts.ts';

export const accountColumns = 'id, name, created_at';
export const apiKeyColumns = 'api_key.*, account.name AS account FROM api_key JOIN account ON account.id = account_id';

export interface AccountRow {
  id: bigint;
  name: string;
  created_at: bigint;
}

export interface ApiKeyRow {
  id: bigint;
  account_id: bigint;
  account: string;
  name: string;
  hint: string;
  scopes: string;
  created_at: bigint;
  lifetime_ms: bigint | null;
  expires_at: bigint | null;
  revoked_at: bigint | null;
  last_used_at: bigint | null;
  deprecated_calls: bigint;
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

function toDate(ms: bigint): Date {
  return new Date(Number(ms));
}
