/** Everything that changes the SQLite store: synchronous functions, each called inside the writer's open transaction. */
import type { Account, ApiKey, KeyUse, NewApiKey, Secret } from '../accounts.ts';
import type { Message } from '../messages.ts';
import type { Addition, NewPet, PetJson } from '../pets.ts';
import { type Retry, retryWindowMs } from '../retries.ts';
import { type AccountRow, type ApiKeyRow, accountColumns, apiKeyColumns, toAccount, toApiKey } from './rows.ts';
import type { Connection } from './sqlite-connection.ts';

export type Commands = ReturnType<typeof prepareCommands>;
export type CommandName = keyof Commands;

interface NewAnimal extends NewPet {
  retry?: Retry | undefined;
  at: number;
}

interface Rotation {
  id: number;
  oldExpiresAt: Date;
  secret: Secret;
  at: number;
}

/** Prepares the commands on the writing connection. None of them throws but for the database's own failures. */
export function prepareCommands(connection: Connection) {
  const sql = <Parameters extends unknown[], Row = unknown>(text: string) => connection.prepare<Parameters, Row>(text);

  const insertPet = sql<[string, bigint, string], { id: bigint; pet: PetJson }>(
    'INSERT INTO pet (name, category_id, status) VALUES (?, ?, ?) RETURNING id, json AS pet',
  );
  const findRetry = sql<[string, bigint, string, number, string, number], { id: bigint; pet: PetJson; same: bigint }>(
    `SELECT pet.id, json AS pet, name = ? AND category_id = ? AND status = ? AS same
     FROM idempotency JOIN pet ON pet.id = pet_id
     WHERE account_id = ? AND operation = 'createPet' AND key = ? AND created_at > ?`,
  );
  const upsertRetry = sql<[number, string, bigint, number]>(
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
  const deleteAccount = sql<[string], AccountRow>(`DELETE FROM account WHERE name = ? RETURNING ${accountColumns}`);
  const findAccount = sql<[string], AccountRow>(`SELECT ${accountColumns} FROM account WHERE name = ?`);
  const insertKey = sql<[bigint, string, string, Buffer, string, number, number | null, number | null], { id: bigint }>(
    `INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at, lifetime_ms, expires_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
  );
  const findKey = sql<[number | bigint], ApiKeyRow>(`SELECT ${apiKeyColumns} WHERE api_key.id = ?`);
  const revoke = sql<[number, number]>('UPDATE api_key SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?');
  const expire = sql<[number, number]>(
    'UPDATE api_key SET expires_at = min(coalesce(expires_at, 9223372036854775807), ?) WHERE id = ?',
  );
  const recordUse = sql<[number, number, number]>(
    'UPDATE api_key SET last_used_at = max(coalesce(last_used_at, 0), ?), deprecated_calls = deprecated_calls + ? WHERE id = ?',
  );

  function keyById(id: number | bigint): ApiKey | undefined {
    const row = findKey.get(id);
    return row && toApiKey(row);
  }

  return {
    addPet({ name, categoryId, status, retry, at }: NewAnimal): Addition {
      // A key that was first used then, or before, counts as new.
      const forgottenAt = at - retryWindowMs;
      if (retry) {
        // No operation changes an animal, so the row itself still tells what the first call's body was.
        const known = findRetry.get(name, categoryId, status, retry.accountId, retry.key, forgottenAt);
        if (known) return known.same ? { outcome: 'replayed', id: known.id, pet: known.pet } : { outcome: 'reused' };
      }
      const added = insertPet.get(name, categoryId, status) as { id: bigint; pet: PetJson };
      if (retry) {
        forgetRetries.run(forgottenAt);
        upsertRetry.run(retry.accountId, retry.key, added.id, at);
      }
      return { outcome: 'added', id: added.id, pet: added.pet };
    },

    addMessage({ id, accountId, message, status, createdAt }: Message & { accountId: number }): void {
      insertMessage.run(id, accountId, message, status, Date.parse(createdAt));
    },

    addAccount({ name, at }: { name: string; at: number }): Account | undefined {
      const row = insertAccount.get(name, at);
      return row && toAccount(row);
    },

    removeAccount({ name }: { name: string }): Account | undefined {
      const row = deleteAccount.get(name);
      return row && toAccount(row);
    },

    addKey({ account, name, scopes, lifetimeMs, secret, at }: NewApiKey & { at: number }): ApiKey | undefined {
      const owner = findAccount.get(account);
      if (!owner) return undefined;
      const expiresAt = lifetimeMs === null ? null : at + lifetimeMs;
      const { hint, hash } = secret;
      const row = insertKey.get(BigInt(owner.id), name, hint, hash, scopes.join(' '), at, lifetimeMs, expiresAt);
      return keyById((row as { id: bigint }).id);
    },

    revokeKey({ id, at }: { id: number; at: number }): ApiKey | undefined {
      revoke.run(at, id);
      return keyById(id);
    },

    rotateKey({ id, oldExpiresAt, secret, at }: Rotation): ApiKey | undefined {
      const old = findKey.get(id);
      if (!old || old.revoked_at !== null) return undefined;
      expire.run(oldExpiresAt.getTime(), id);
      const { account, name, scopes } = toApiKey(old);
      const lifetimeMs = old.lifetime_ms === null ? null : Number(old.lifetime_ms);
      return this.addKey({ account, name, scopes, lifetimeMs, secret, at });
    },

    recordUses({ uses }: { uses: KeyUse[] }): void {
      for (const { id, lastUsedAt, deprecatedCalls } of uses) recordUse.run(lastUsedAt.getTime(), deprecatedCalls, id);
    },
  };
}
