/** What the service asks of a database: one interface, whichever engine stands behind it. */
import type { Accounts } from '../accounts.ts';
import { ApiError } from '../errors.ts';
import type { Messages } from '../messages.ts';
import type { Pets } from '../pets.ts';

export interface Repository {
  pets: Pets;
  accounts: Accounts;
  messages: Messages;
  /** Resolves where the store answers; rejects otherwise. */
  check(): Promise<void>;
  /** What an operator watches. */
  measure(): StoreMeasures;
  /** Resolves when everything accepted is on disk and every handle is closed. */
  close(): Promise<void>;
}

interface StoreMeasures {
  /** Writes that were accepted and are not answered yet. */
  waitingWrites: number;
  /** Size of the write-ahead log; undefined where the engine keeps it to itself. */
  walBytes: number | undefined;
}

/** The store cannot be opened; the message is one sentence for the operator. */
export class OpenError extends Error {
  override name = 'OpenError';
}

/** A copy of the store cannot be made or used; the message is one sentence for the operator. */
export class CopyError extends Error {
  override name = 'CopyError';
}

export interface OpenOptions {
  /** The clock, for creation dates and the age of idempotency keys. */
  now: () => Date;
  /** Called when the store can no longer promise that a write is on disk: the process must end. */
  onFatal?: ((error: Error) => void) | undefined;
  /** Called when the write-ahead log could not be moved into the file. Nothing is lost: the log grows until a later attempt succeeds. */
  onCheckpointFailure?: ((error: Error) => void) | undefined;
  /** Told how many writes each commit held. */
  onCommit?: ((writes: number) => void) | undefined;
  /** Whether a database that several servers share may be brought to this release's schema. An SQLite file always is. Default: true. */
  migrate?: boolean | undefined;
  /** Told the name of each migration as it is applied. */
  onMigration?: ((name: string) => void) | undefined;
}

/** The store cannot answer now, and may soon. `cause` is for the log. */
export function unavailable(cause: unknown): ApiError {
  return new ApiError('service_unavailable', undefined, { cause });
}
