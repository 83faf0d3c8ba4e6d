/** Reads of people, sessions and one-time links. Tokens are given by their SHA-256. */

import { clockSkewMs, limits } from '../../core/limits.ts';
import { type LinkPurpose, sessionIdleMs } from '../../core/people.ts';
import { type AccountRow, accountColumns } from '../rows.ts';
import { raw, type Steps, sql } from '../steps.ts';

type PersonRow = AccountRow & { passwordHash: string | null };

export function* findPerson(name: string): Steps<PersonRow | undefined> {
  const [person] = yield* sql<PersonRow>`
    SELECT ${raw(accountColumns)}, password_hash AS "passwordHash" FROM account WHERE name = ${name}`;
  return person;
}

type SessionRow = AccountRow & { network: Buffer | null; usedAt: number };

export function* findSession(hash: Buffer, at: number): Steps<SessionRow | undefined> {
  const [session] = yield* sql<SessionRow>`
    SELECT ${raw(accountColumns)}, account.network, used_at AS "usedAt" FROM session JOIN account ON account.id = account_id
    WHERE hash = ${hash} AND session.created_at > ${at - limits.sessionLifetime} AND used_at > ${at - sessionIdleMs}
      AND used_at <= ${at + clockSkewMs}`;
  return session;
}

/** The id of the account is null if the link belongs to none. */
type LinkRow = AccountRow & { purpose: LinkPurpose; expiresAt: number };

export function* findLink(hash: Buffer, at: number): Steps<LinkRow | undefined> {
  const [link] = yield* sql<LinkRow>`
    SELECT purpose, expires_at AS "expiresAt", ${raw(accountColumns)}
    FROM one_time_link LEFT JOIN account ON account.id = account_id WHERE hash = ${hash} AND expires_at > ${at}`;
  return link;
}
