/** Retried creates. A separate file: the writer thread needs it, and not the schemas of pets, which would take time and memory. */
import { dayMs } from './limits.ts';

/** A create with an Idempotency-Key, which belongs to the account. */
export interface Retry {
  accountId: number;
  key: string;
}

/** How long a repeated create is a retry. After that, the key can be used anew. */
export const retryWindowMs = dayMs;

/** When a key is deleted: a clock that steps two days ahead and back forgets none. */
export const retryKeptMs = 3 * dayMs;
