/** Checks, in the transaction of a change, the API key that asks for it. */
import type { KeyRejection } from '../../core/accounts.ts';
import { type Steps, sql } from '../steps.ts';

/** Undefined if the key is active at `at`, in milliseconds. Takes no lock. */
export function* rejectionOfKey(keyId: number, at: number): Steps<KeyRejection | undefined> {
  const [key] = yield* sql<{ revoked_at: number | string | null; expires_at: number | string | null }>`
    SELECT revoked_at, expires_at FROM api_key WHERE id = ${keyId}`;
  if (!key) return 'invalid_api_key';
  if (key.revoked_at !== null) return 'revoked_api_key';
  return key.expires_at !== null && Number(key.expires_at) <= at ? 'expired_api_key' : undefined;
}
