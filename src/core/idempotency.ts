/** Retried creates. A separate file, because the writer thread needs nothing else of the domain. */

/** A create with an Idempotency-Key. The store keeps the key, per account, for `retryWindowMs`. */
export interface Retry {
  accountId: number;
  key: string;
}

export const retryWindowMs = 24 * 60 * 60 * 1000;
