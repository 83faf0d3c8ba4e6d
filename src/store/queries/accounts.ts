/** Reads of accounts and API keys. */
import {
  type AccountRow,
  type ApiKeyRow,
  accountColumns,
  apiKeyColumns,
  isActive,
  type KnownKeyRow,
  type OwnKeyRow,
  ownKeyColumns,
} from '../rows.ts';
import { raw, type Steps, sql } from '../steps.ts';

export function listAccounts(): Steps<AccountRow[]> {
  return sql<AccountRow>`SELECT ${raw(accountColumns)} FROM account ORDER BY id`;
}

export function listKeys(account: string | undefined): Steps<ApiKeyRow[]> {
  return sql<ApiKeyRow>`
    SELECT ${raw(apiKeyColumns)} WHERE account.name = coalesce(${account ?? null}, account.name) ORDER BY api_key.id`;
}

export function* listOwnKeys(
  accountId: number,
  maxEnded: number,
  at: number,
): Steps<{ active: OwnKeyRow[]; ended: OwnKeyRow[] }> {
  // +: SQLite then uses the index of active keys, and sorts them.
  const active = yield* sql<OwnKeyRow>`
    SELECT ${raw(ownKeyColumns)} WHERE account_id = ${accountId} AND ${raw(isActive)} ${at} ORDER BY +api_key.id DESC`;
  const ended = yield* sql<OwnKeyRow>`
    SELECT ${raw(ownKeyColumns)}
    WHERE account_id = ${accountId} AND NOT (${raw(isActive)} ${at}) ORDER BY api_key.id DESC LIMIT ${maxEnded}`;
  return { active, ended };
}

export const knownKeyColumns = `account.network, ${apiKeyColumns}`;

/** `hash`: SHA-256 of the key. PostgreSQL reads the keys of a turn together. */
export function* findKey(hash: Buffer): Steps<KnownKeyRow | undefined> {
  const [key] = yield* sql<KnownKeyRow>`SELECT ${raw(knownKeyColumns)} WHERE hash = ${hash}`;
  return key;
}
