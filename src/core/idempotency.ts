/** Retried creates. A separate file: the writer thread needs it, and not the schemas of pets, which would take time and memory. */

/** A create with an Idempotency-Key. The store keeps the key, per account, for `retryWindowMs`. */
export interface Retry {
  accountId: number;
  key: string;
}

export const retryWindowMs = 24 * 60 * 60 * 1000;
