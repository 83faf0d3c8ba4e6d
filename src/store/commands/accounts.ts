/** Changes of accounts. Each locks the account's row first, so that its later statements see what was committed before. */
import { type AccountRow, accountColumns } from '../rows.ts';
import { forUpdate, raw, type Steps, sql } from '../steps.ts';
import { accountOfSession } from './sessions.ts';

/** The operator, who names the account; or its person, by the session. */
export type Owner = { account: string; session?: undefined } | { account?: undefined; session: string };

/** With its row locked. */
export function* accountOf(owner: Owner, at: number): Steps<AccountRow | undefined> {
  if (owner.session !== undefined) return yield* accountOfSession(owner.session, at);
  const [row] = yield* sql<AccountRow>`
    SELECT ${raw(accountColumns)} FROM account WHERE name = ${owner.account} ${forUpdate}`;
  return row;
}

export function* addAccount({ name, at }: { name: string; at: number }): Steps<AccountRow | undefined> {
  const [row] = yield* sql<AccountRow>`
    INSERT INTO account (name, created_at) VALUES (${name}, ${at}) ON CONFLICT DO NOTHING
    RETURNING ${raw(accountColumns)}`;
  return row;
}

/** An owner, and the hash of the password that the account must still have; undefined: any. */
export type Removal = Owner & { passwordHash?: string | undefined; at: number };

/** With its row locked; undefined if it may not be removed. */
export function* accountToRemove(removal: Removal): Steps<AccountRow | undefined> {
  const account = yield* accountOf(removal, removal.at);
  if (!account || removal.passwordHash === undefined) return account;
  const [row] = yield* sql<{ password_hash: string | null }>`
    SELECT password_hash FROM account WHERE id = ${account.id}`;
  return row?.password_hash === removal.passwordHash ? account : undefined;
}

/** With its keys, sessions and links. Call sweepKeys before, until it deletes fewer than it may. */
export function* removeAccount(removal: Removal): Steps<AccountRow | 'session_ended' | undefined> {
  if (removal.session !== undefined && !(yield* accountOf(removal, removal.at))) return 'session_ended';
  const account = yield* accountToRemove(removal);
  if (account) yield* sql`DELETE FROM account WHERE id = ${account.id}`;
  return account;
}
