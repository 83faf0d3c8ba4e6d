/** Creations that a client may repeat. A room of its own, because threads that write need nothing else of the domain. */

/** One creation under an Idempotency-Key; the key is remembered per account for `retryWindowMs`. */
export interface Retry {
  accountId: number;
  key: string;
}

export const retryWindowMs = 24 * 60 * 60 * 1000;
