/** Changes of sessions. The tokens of sessions are given by their SHA-256. */
import { clockSkewMs, limits } from '../../core/limits.ts';
import { sessionIdleMs } from '../../core/people.ts';
import { type AccountRow, accountColumns } from '../rows.ts';
import { endOneOf, forUpdate, oneOf, raw, type Steps, skipLocked, sql } from '../steps.ts';

/** Each new session also deletes this many ended ones at most: more than it adds, so that they do not pile up. */
const swept = 10;

interface SessionRow extends AccountRow {
  network: Buffer | null;
  usedAt: number;
}

/** A session that has not ended at `at`, with its account. */
export function* findSession(hash: Buffer, at: number): Steps<SessionRow | undefined> {
  const [session] = yield* sql<SessionRow>`
    SELECT ${raw(accountColumns)}, account.network, used_at AS "usedAt"
    FROM session JOIN account ON account.id = account_id
    WHERE hash = ${hash} AND session.created_at > ${at - limits.sessionLifetimeMs} AND used_at > ${at - sessionIdleMs}
      AND used_at <= ${at + clockSkewMs}`;
  return session;
}

/** The account of a session that has not ended at `at`, with its row locked: a command that ends its sessions comes before or after. */
export function* accountOfSession(hash: Buffer, at: number): Steps<AccountRow | undefined> {
  yield* sql`SELECT id FROM account WHERE id = (SELECT account_id FROM session WHERE hash = ${hash}) ${forUpdate}`;
  // A second statement: on PostgreSQL, it also sees what was committed while the first one waited for the lock.
  return yield* findSession(hash, at);
}

/** The hash of an account's password, null if it has none, with the account's row locked; undefined if there is no such account. */
export function* passwordOf(accountId: number): Steps<string | null | undefined> {
  const [account] = yield* sql<{ hash: string | null }>`
    SELECT password_hash AS hash FROM account WHERE id = ${accountId} ${forUpdate}`;
  return account?.hash;
}

interface NewSession {
  hash: Buffer;
  accountId: number;
  /** The hash of the password that was checked. */
  passwordHash: string;
  at: number;
}

/** Returns false, and adds nothing, if the account no longer has this password. */
export function* addSession({ hash, accountId, passwordHash, at }: NewSession): Steps<boolean> {
  if ((yield* passwordOf(accountId)) !== passwordHash) return false;
  // Also sessions that were used in the future: the clock was set back, and they would come back to life when it gets there again.
  yield* sql`
    DELETE FROM session WHERE hash ${oneOf}
      SELECT hash FROM session WHERE used_at <= ${at - sessionIdleMs} OR used_at > ${at + clockSkewMs}
      LIMIT ${swept} ${skipLocked}
    ${endOneOf}`;
  yield* sql`
    DELETE FROM session WHERE account_id = ${accountId} AND hash NOT IN (
      SELECT hash FROM session WHERE account_id = ${accountId} ORDER BY used_at DESC LIMIT ${limits.sessions - 1}
    )`;
  yield* sql`
    INSERT INTO session (hash, account_id, created_at, used_at) VALUES (${hash}, ${accountId}, ${at}, ${at})`;
  return true;
}

/** Records that the session is used at `at`, unless it has ended. */
export function* touchSession({ hash, at }: { hash: Buffer; at: number }): Steps<void> {
  yield* sql`
    UPDATE session SET used_at = ${at} WHERE hash = ${hash}
      AND created_at > ${at - limits.sessionLifetimeMs} AND used_at > ${at - sessionIdleMs} AND used_at < ${at}`;
}

/** Ends one session. Its token is all that this needs. */
export function* endSession({ hash, at }: { hash: Buffer; at: number }): Steps<void> {
  yield* accountOfSession(hash, at);
  yield* sql`DELETE FROM session WHERE hash = ${hash}`;
}

/** Ends all sessions of the account to which `session` belongs. Returns false, and changes nothing, if it has ended. */
export function* endSessions({ session, at }: { session: Buffer; at: number }): Steps<boolean> {
  const account = yield* accountOfSession(session, at);
  if (!account) return false;
  yield* sql`DELETE FROM session WHERE account_id = ${account.id}`;
  return true;
}
