/** The store interface that every database engine implements, with its options and errors. */
import type { Accounts } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import type { Messages } from '../core/messages.ts';
import type { People, Trail } from '../core/people.ts';
import type { Pets } from '../core/pets.ts';

export interface Store {
  pets: Pets;
  accounts: Accounts;
  messages: Messages;
  people: People;
  trail: Trail;
  /** Resolves if the store responds; rejects otherwise. */
  check(): Promise<void>;
  /** Current values for the metrics. */
  measure(): StoreMeasures;
  /** Resolves when all accepted writes are on disk and every handle is closed. */
  close(): Promise<void>;
}

/** Connections to the database. */
export interface PoolMeasures {
  /** The most that may be open. */
  limit: number;
  /** Those that run a job, or that the server has not let go yet. */
  busy: number;
  /** Jobs that wait for a connection. */
  waiting: number;
  /** Connections given up because a statement passed its deadline: those that the server has not let go yet, and all since the start. */
  abandoned: number;
  abandonedTotal: number;
  /** Errors of the database and of connections to it, by class; also those after which a job ran again. */
  errors: Readonly<Record<string, number>>;
}

export interface StoreMeasures {
  /** Writes that were accepted but have not finished. */
  waitingWrites: number;
  /** Size of the write-ahead log (WAL) in bytes; undefined if the engine does not report it. */
  walBytes: number | undefined;
  /**
   * Writes that the store could not commit since it was opened, by reason. Only of the kinds whose commits `onCommit` reports:
   * lastFailedWriteAt is compared with the time of the last commit.
   */
  failedWrites: Readonly<Record<string, number>>;
  /** When the last write failed, in milliseconds since 1970; 0 if none has. */
  lastFailedWriteAt: number;
  /** The file system of the store, in bytes; undefined if the engine's files are elsewhere. */
  disk?: { size: number; available: number } | undefined;
  /** Undefined if the engine has no connections. */
  pool?: PoolMeasures | undefined;
}

/** The store cannot be opened; the message is one sentence for the operator. */
export class OpenError extends Error {
  override name = 'OpenError';
}

/** A backup, restore or copy failed; the message is one sentence for the operator. */
export class CopyError extends Error {
  override name = 'CopyError';
}

export interface OpenOptions {
  /** The clock for creation dates and the age of idempotency keys. */
  now: () => Date;
  /** Called when the store can no longer guarantee that a write is on disk. The process must exit. */
  onFatal?: ((error: Error) => void) | undefined;
  /** Called when a WAL checkpoint fails. No data is lost: the WAL grows until a later checkpoint succeeds. */
  onCheckpointFailure?: ((error: Error) => void) | undefined;
  /** Called after each commit with the number of writes in it. */
  onCommit?: ((writes: number) => void) | undefined;
  /** Called when a statement of PostgreSQL has ended or passed its deadline, with its time in milliseconds. */
  onQuery?: ((kind: 'read' | 'write', ms: number) => void) | undefined;
  /** Whether to migrate a PostgreSQL database to this release's schema. An SQLite file is always migrated. Default: true. */
  migrate?: boolean | undefined;
  /** Called with a sentence if the database does not answer within a second and is tried again, or if its schema is not ready after 5 s. */
  onWait?: ((sentence: string) => void) | undefined;
  /** Whether to refuse a PostgreSQL database that can lose acknowledged writes. Otherwise `onWarning` is called. Default: false. */
  strict?: boolean | undefined;
  /** Called with a sentence about a setting of the database that is unsafe. */
  onWarning?: ((sentence: string) => void) | undefined;
  /** Messages of an account that are kept at most. Default: limits.messages. */
  maxMessages?: number | undefined;
  /** Called with the name of each migration when it has been applied. */
  onMigration?: ((name: string) => void) | undefined;
}

/** The error for a temporary failure of the store (503). `cause` goes to the log. */
export function unavailable(cause: unknown): ApiError {
  return new ApiError('service_unavailable', undefined, { cause });
}
