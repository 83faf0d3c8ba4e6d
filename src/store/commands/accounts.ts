/** Changes of accounts. Each locks the account's row first, so that its later statements see what was committed before. */
import type { Owner } from '../../core/accounts.ts';
import { type AccountRow, accountColumns } from '../rows.ts';
import { forUpdate, raw, type Steps, sql } from '../steps.ts';
import { accountOfSession, passwordOf } from './sessions.ts';

/** The account, with its row locked. */
export function* accountOf(owner: Owner, at: number): Steps<AccountRow | undefined> {
  if (typeof owner !== 'string') return yield* accountOfSession(owner.session, at);
  const [row] = yield* sql<AccountRow>`
    SELECT ${raw(accountColumns)} FROM account WHERE name = ${owner} ${forUpdate}`;
  return row;
}

export function* addAccount({ name, at }: { name: string; at: number }): Steps<AccountRow | undefined> {
  const [row] = yield* sql<AccountRow>`
    INSERT INTO account (name, created_at) VALUES (${name}, ${at}) ON CONFLICT DO NOTHING
    RETURNING ${raw(accountColumns)}`;
  return row;
}

interface Removal {
  owner: Owner;
  /** The hash of the password that the account must still have; undefined: any. */
  passwordHash?: string | undefined;
  at: number;
}

/** Removes an account with its keys, sessions and links. Returns undefined if it does not exist, or has another password. */
export function* removeAccount({ owner, passwordHash, at }: Removal): Steps<AccountRow | 'session_ended' | undefined> {
  const account = yield* accountOf(owner, at);
  if (!account) return typeof owner === 'string' ? undefined : 'session_ended';
  if (passwordHash !== undefined && (yield* passwordOf(account.id)) !== passwordHash) return undefined;
  yield* sql`DELETE FROM account WHERE id = ${account.id}`;
  return account;
}
