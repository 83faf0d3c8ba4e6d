/** The store interface, with its options and errors. */

import type { AppStore } from '../core/app-store.ts';
import { ApiError } from '../core/errors.ts';

export interface Store extends AppStore {
  /** The names of the migrations that were applied when it was opened. */
  migrated: readonly string[];
  /** Resolves if the store responds; rejects otherwise. */
  check(): Promise<void>;
  /** Resolves when all accepted writes are on disk and every handle is closed. */
  close(): Promise<void>;
}

/** The store cannot be opened; the message is one sentence for the operator. */
export class OpenError extends Error {
  override name = 'OpenError';
}

/** A backup, restore or copy failed; the message is one sentence for the operator. */
export class CopyError extends Error {
  override name = 'CopyError';
}

export interface StoreMetrics {
  /** Called after each commit with the number of writes in it. */
  commit(writes: number): void;
  /** Called when writes could not be committed. */
  failed(error: unknown, writes: number): void;
  /** Called when an attempt of a job on PostgreSQL has ended, with its time in milliseconds. */
  query(kind: 'read' | 'write', ms: number): void;
}

/** Where the store reports what is no error of a caller: the logger of pino, or what a command prints. */
interface StoreLogger {
  warn(sentence: string): void;
  error(fields: { err: Error }, sentence: string): void;
}

export interface OpenOptions {
  /** The clock. */
  now: () => Date;
  logger?: StoreLogger | undefined;
  metrics?: StoreMetrics | undefined;
  /** Called when the store can no longer guarantee that a write is on disk. The process must exit. */
  onFatal?: ((error: Error) => void) | undefined;
  /** Whether to migrate a PostgreSQL database to this release's schema. An SQLite file is always migrated. Default: true. */
  migrate?: boolean | undefined;
  /** Whether to refuse a PostgreSQL database that can lose acknowledged writes at a loss of power. Default: false. */
  strict?: boolean | undefined;
}

/** The error for a temporary failure of the store (503). `cause` goes to the log. */
export function unavailable(cause: unknown): ApiError {
  return new ApiError('service_unavailable', undefined, { cause });
}
