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
type Removal = Owner & { passwordHash?: string | undefined; at: number };

/** With its keys, sessions and links. Undefined if it does not exist, or has another password. */
export function* removeAccount(removal: Removal): Steps<AccountRow | 'session_ended' | undefined> {
  const account = yield* accountOf(removal, removal.at);
  if (!account) return removal.session === undefined ? undefined : 'session_ended';
  if (removal.passwordHash !== undefined) {
    const [row] = yield* sql<{ password_hash: string | null }>`
      SELECT password_hash FROM account WHERE id = ${account.id}`;
    if (row?.password_hash !== removal.passwordHash) return undefined;
  }
  yield* sql`DELETE FROM account WHERE id = ${account.id}`;
  return account;
}
