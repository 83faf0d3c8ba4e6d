/**
 * All writes to the SQLite store, as synchronous functions that run inside the writer's open transaction. Inputs and outputs are JSON,
 * because they cross between threads: times are milliseconds, integers that may exceed 2^53 are decimal text, and accounts and keys are
 * rows.
 */

import { maxActiveKeys } from '../../accounts.ts';
import { type Retry, retryWindowMs } from '../../idempotency.ts';
import type { Message } from '../../messages.ts';
import type { PetJson, PetStatus } from '../../pets.ts';
import { type AccountRow, type ApiKeyRow, accountColumns, apiKeyColumns, isActive } from '../rows.ts';
import type { Connection } from './connection.ts';
import { preparePeople } from './people.ts';

export type Commands = ReturnType<typeof prepareCommands>;
export type CommandName = keyof Commands;

interface AddedPet {
  name: string;
  categoryId: string;
  status: PetStatus;
  retry?: Retry | undefined;
  at: number;
}

export type PetOutcome =
  | { outcome: 'added'; id: number }
  | { outcome: 'replayed'; id: number; pet: PetJson }
  | { outcome: 'reused' };

interface RemovedAccount {
  name: string;
  passwordHash?: string | null | undefined;
}

interface AddedKey {
  account: string;
  name: string;
  scopes: string[];
  lifetimeMs: number | null;
  hint: string;
  /** In hexadecimal. */
  hash: string;
  at: number;
}

interface Rotation {
  id: number;
  accountId?: number | undefined;
  oldExpiresAt: number;
  hint: string;
  hash: string;
  at: number;
}

interface UsedKey {
  id: number;
  lastUsedAt: number;
  deprecatedCalls: number;
}

/** Prepares the commands on the writer's connection. They throw only SQLite errors. */
export function prepareCommands(connection: Connection) {
  // Every integer read here is below 2^53.
  const sql = <Parameters extends unknown[], Row = unknown>(text: string) =>
    connection.prepare<Parameters, Row>(text).safeIntegers(false);

  const insertPet = sql<[string, bigint, string]>('INSERT INTO pet (name, category_id, status) VALUES (?, ?, ?)');
  const findRetry = sql<[string, bigint, string, number, string, number], { id: number; pet: PetJson; same: number }>(
    `SELECT pet.id, json AS pet, name = ? AND category_id = ? AND status = ? AS same
     FROM idempotency JOIN pet ON pet.id = pet_id
     WHERE account_id = ? AND operation = 'createPet' AND key = ? AND created_at > ?`,
  );
  const upsertRetry = sql<[number, string, number, number]>(
    `INSERT INTO idempotency (account_id, operation, key, pet_id, created_at) VALUES (?, 'createPet', ?, ?, ?)
     ON CONFLICT DO UPDATE SET pet_id = excluded.pet_id, created_at = excluded.created_at`,
  );
  const forgetRetries = sql<[number]>(
    `DELETE FROM idempotency WHERE (account_id, operation, key) IN
       (SELECT account_id, operation, key FROM idempotency WHERE created_at <= ? ORDER BY created_at LIMIT 10)`,
  );
  const insertMessage = sql<[string, number, string, string, number]>(
    'INSERT INTO message (id, account_id, message, status, created_at) VALUES (?, ?, ?, ?, ?)',
  );
  const insertAccount = sql<[string, number], AccountRow>(
    `INSERT INTO account (name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING ${accountColumns}`,
  );
  const deleteAccount = sql<[string, string | null], AccountRow>(
    `DELETE FROM account WHERE name = ? AND password_hash IS coalesce(?, password_hash) RETURNING ${accountColumns}`,
  );
  const findAccount = sql<[string], AccountRow>(`SELECT ${accountColumns} FROM account WHERE name = ?`);
  const insertKey = sql<[number, string, string, Buffer, string, number, number | null, number | null], { id: number }>(
    `INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at, lifetime_ms, expires_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
  );
  const findKey = sql<[number], ApiKeyRow>(`SELECT ${apiKeyColumns} WHERE api_key.id = ?`);
  const countActiveKeys = sql<[number, number], number>(
    `SELECT count(*) FROM api_key WHERE account_id = ? AND ${isActive} ?`,
  ).pluck();
  const revoke = sql<[number, number]>('UPDATE api_key SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?');
  const expire = sql<[number, number]>(
    'UPDATE api_key SET expires_at = min(coalesce(expires_at, 9223372036854775807), ?) WHERE id = ?',
  );
  const restore = sql<[ApiKeyRow['expires_at'], number]>('UPDATE api_key SET expires_at = ? WHERE id = ?');
  const recordUse = sql<[number, number, number]>(
    'UPDATE api_key SET last_used_at = max(coalesce(last_used_at, 0), ?), deprecated_calls = deprecated_calls + ? WHERE id = ?',
  );

  return {
    ...preparePeople(connection),

    addPet({ name, categoryId, status, retry, at }: AddedPet): PetOutcome {
      const category = BigInt(categoryId);
      // An idempotency key first used at or before this time counts as new.
      const forgottenAt = at - retryWindowMs;
      if (retry) {
        // No operation changes a pet, so its row still equals the first request's body.
        const known = findRetry.get(name, category, status, retry.accountId, retry.key, forgottenAt);
        if (known) return known.same ? { outcome: 'replayed', id: known.id, pet: known.pet } : { outcome: 'reused' };
      }
      const id = insertPet.run(name, category, status).lastInsertRowid as number;
      if (retry) {
        forgetRetries.run(forgottenAt);
        upsertRetry.run(retry.accountId, retry.key, id, at);
      }
      return { outcome: 'added', id };
    },

    addMessage({ id, accountId, message, status, createdAt }: Message & { accountId: number }): void {
      insertMessage.run(id, accountId, message, status, Date.parse(createdAt));
    },

    addAccount({ name, at }: { name: string; at: number }): AccountRow | undefined {
      return insertAccount.get(name, at);
    },

    removeAccount({ name, passwordHash = null }: RemovedAccount): AccountRow | undefined {
      return deleteAccount.get(name, passwordHash);
    },

    addKey({ account, name, scopes, lifetimeMs, hint, hash, at }: AddedKey): ApiKeyRow | 'too_many' | undefined {
      const owner = findAccount.get(account);
      if (!owner) return undefined;
      if ((countActiveKeys.get(Number(owner.id), at) as number) >= maxActiveKeys) return 'too_many';
      const expiresAt = lifetimeMs === null ? null : at + lifetimeMs;
      const bytes = Buffer.from(hash, 'hex');
      const row = insertKey.get(Number(owner.id), name, hint, bytes, scopes.join(' '), at, lifetimeMs, expiresAt);
      return findKey.get((row as { id: number }).id);
    },

    revokeKey({ id, accountId, at }: { id: number; accountId?: number | undefined; at: number }) {
      const key = findKey.get(id);
      if (!key || (accountId !== undefined && key.account_id !== accountId)) return undefined;
      revoke.run(at, id);
      return findKey.get(id);
    },

    rotateKey({ id, accountId, oldExpiresAt, hint, hash, at }: Rotation): ApiKeyRow | 'too_many' | undefined {
      const old = findKey.get(id);
      if (!old || old.revoked_at !== null || (accountId !== undefined && old.account_id !== accountId))
        return undefined;
      expire.run(oldExpiresAt, id);
      const { account, name, scopes, lifetime_ms } = old;
      const lifetimeMs = lifetime_ms === null ? null : Number(lifetime_ms);
      const added = this.addKey({ account, name, scopes: scopes.split(' '), lifetimeMs, hint, hash, at });
      if (added === 'too_many') restore.run(old.expires_at, id);
      return added;
    },

    recordUses({ uses }: { uses: UsedKey[] }): void {
      for (const { id, lastUsedAt, deprecatedCalls } of uses) recordUse.run(lastUsedAt, deprecatedCalls, id);
    },
  };
}
