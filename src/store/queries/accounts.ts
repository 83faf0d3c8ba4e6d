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

export const knownKeyColumns = `account.network, account.created_at AS account_created_at, ${apiKeyColumns}`;

/** `hash`: SHA-256 of the key. PostgreSQL reads the keys of a turn together. */
export function* findKey(hash: Buffer): Steps<KnownKeyRow | undefined> {
  const [key] = yield* sql<KnownKeyRow>`SELECT ${raw(knownKeyColumns)} WHERE hash = ${hash}`;
  return key;
}

/** Which of these keys have ended at `at`, or do not exist. */
export function* findEnded(ids: number[], at: number): Steps<number[]> {
  const ended: number[] = [];
  for (const id of ids) {
    const [active] = yield* sql`SELECT 1 AS one FROM api_key WHERE id = ${id} AND ${raw(isActive)} ${at}`;
    if (!active) ended.push(id);
  }
  return ended;
}
