/** The columns that both engines select for accounts and API keys, and the conversion of their rows. */
import type { Account, ApiKey, KnownKey, OwnKey, Scope } from '../core/accounts.ts';
import type { LinkPurpose, OneTimeLink, Session } from '../core/people.ts';
import { type DayOfUse, dateOf } from '../core/usage.ts';

export const accountColumns =
  'account.id, account.name, account.created_at, account.password_hash IS NOT NULL AS has_password';
const keyColumns = [
  ...['id', 'account_id', 'name', 'hint', 'scopes', 'created_at', 'lifetime_ms', 'expires_at', 'revoked_at'],
  ...['last_used_at', 'deprecated_calls'],
].map((column) => `api_key.${column}`);
export const apiKeyColumns = `${keyColumns}, account.name AS account FROM api_key JOIN account ON account.id = account_id`;

export const ownKeyColumns = `
  (SELECT hint FROM rotated_key JOIN api_key AS old ON old.id = key_id WHERE successor_id = api_key.id) AS replaces,
  (SELECT hint FROM rotated_key JOIN api_key AS new ON new.id = successor_id WHERE key_id = api_key.id) AS replaced_by,
  ${apiKeyColumns}`;

/** An active key has not ended at the time that follows this condition. The index api_key_active has the same expression. */
export const isActive = 'revoked_at IS NULL AND coalesce(expires_at, 9223372036854775807) >';

/** SQLite returns a bigint or a number; PostgreSQL returns decimal text. */
type StoredInteger = bigint | number | string;

export interface AccountRow {
  id: StoredInteger;
  name: string;
  created_at: StoredInteger;
  /** 0 or 1 in SQLite. */
  has_password: StoredInteger | boolean;
}

export interface PersonRow extends AccountRow {
  password_hash: string | null;
}

export interface SessionRow extends AccountRow {
  network: Buffer | null;
  used_at: StoredInteger;
}

/** The columns of the account are null if the link belongs to none. */
export interface LinkRow extends AccountRow {
  purpose: LinkPurpose;
  expires_at: StoredInteger;
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

export interface OwnKeyRow extends ApiKeyRow {
  replaces: string | null;
  replaced_by: string | null;
}

export interface KnownKeyRow extends ApiKeyRow {
  network: Buffer | null;
}

export interface UsageRow {
  key_id: StoredInteger;
  day: StoredInteger;
  succeeded: StoredInteger;
  client_errors: StoredInteger;
  rate_limited: StoredInteger;
  server_errors: StoredInteger;
  deprecated_calls: StoredInteger;
  error_code: string | null;
  error_at: StoredInteger | null;
}

export function toAccount(row: AccountRow): Account {
  return {
    id: Number(row.id),
    name: row.name,
    createdAt: toDate(row.created_at),
    hasPassword: Boolean(Number(row.has_password)),
  };
}

export function toSession(row: SessionRow): Session {
  return { account: toAccount(row), usedAt: toDate(row.used_at), network: row.network?.toString('base64url') };
}

export function toLink(row: LinkRow): OneTimeLink {
  return { purpose: row.purpose, account: row.id === null ? null : toAccount(row) };
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

export function toOwnKey(row: OwnKeyRow): OwnKey {
  return { ...toApiKey(row), replaces: row.replaces, replacedBy: row.replaced_by };
}

export function toKnownKey(row: KnownKeyRow): KnownKey {
  return { ...toApiKey(row), network: row.network?.toString('base64url') };
}

export function toDayOfUse(row: UsageRow): DayOfUse {
  const { error_code: code, error_at: at } = row;
  return {
    day: dateOf(Number(row.day)),
    succeeded: Number(row.succeeded),
    clientErrors: Number(row.client_errors),
    rateLimited: Number(row.rate_limited),
    serverErrors: Number(row.server_errors),
    deprecatedCalls: Number(row.deprecated_calls),
    lastError: code === null || at === null ? null : { code, at: toDate(at) },
  };
}

function toDate(ms: StoredInteger): Date {
  return new Date(Number(ms));
}
