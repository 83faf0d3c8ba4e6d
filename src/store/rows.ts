/** The columns that both engines select for accounts and API keys, and the conversion of their rows. */
import type { Account, ActiveKey, ApiKey, OwnKey, Scope } from '../core/accounts.ts';

export const accountColumns =
  'account.id, account.name, account.created_at AS "createdAt", account.password_hash IS NOT NULL AS "hasPassword"';

export const apiKeyColumns = `
  api_key.id, account_id AS "accountId", account.name AS account, api_key.name, hint, scopes, api_key.created_at AS "createdAt",
  expires_at AS "expiresAt", revoked_at AS "revokedAt", last_used_at AS "lastUsedAt", deprecated_calls AS "deprecatedCalls"
  FROM api_key JOIN account ON account.id = account_id`;

export const knownKeyColumns = `account.network, ${apiKeyColumns}`;

/** An active key has not ended at the time that follows this condition. The index api_key_active has the same expression. */
export const isActive = 'revoked_at IS NULL AND coalesce(expires_at, 9223372036854775807) >';

/** As the databases return it: times in milliseconds, scopes separated by one space. SQLite has 0 and 1 for false and true. */
type Row<Type> = {
  [Name in keyof Type]: Type[Name] extends Scope[]
    ? string
    : Type[Name] extends Date
      ? number
      : Type[Name] extends Date | null
        ? number | null
        : Type[Name];
};

export type AccountRow = Row<Account>;
export type ApiKeyRow = Row<ApiKey>;
export type OwnKeyRow = Row<OwnKey>;
export type ActiveKeyRow = Row<ActiveKey>;
export type KnownKeyRow = ApiKeyRow & { network: Buffer | null };

/** Columns whose name ends in At are times. */
function withDates<Row extends object>(row: Row): Row {
  const isTime = ([name, value]: [string, unknown]) => name.endsWith('At') && value !== null;
  const dates = Object.entries(row).filter(isTime);
  return { ...row, ...Object.fromEntries(dates.map(([name, ms]) => [name, new Date(ms)])) };
}

export function toAccount(row: AccountRow): Account {
  return { ...withDates(row), hasPassword: Boolean(row.hasPassword) } as unknown as Account;
}

export function toApiKey<Key extends ApiKeyRow>(row: Key): ApiKey & Omit<Key, keyof ApiKey> {
  return { ...withDates(row), scopes: row.scopes.split(' ') } as unknown as ApiKey & Omit<Key, keyof ApiKey>;
}

export const networkOf = (network: Buffer | null) => network?.toString('base64url');
