/** Changes of people: sign-up, passwords and one-time links. Tokens are given by their SHA-256. */
import { clockSkewMs, dayMs, limits } from '../../core/limits.ts';
import { type LinkPurpose, linkLifetimeMs, type PasswordAuthority } from '../../core/people.ts';
import { type AccountRow, accountColumns } from '../rows.ts';
import { forUpdate, raw, type Steps, sql, sweep } from '../steps.ts';
import { accountOfSession, passwordOf } from './sessions.ts';

/** Each new link, and each sign-up, also deletes this many expired rows of its table at most: more than it adds, so that they do not pile up. */
const swept = 10;

interface NewPerson {
  name: string;
  passwordHash: string;
  /** An invitation for a new account. */
  link?: Buffer | undefined;
  /** SHA-256 of the person's network, if anybody may sign up. */
  network?: Buffer | undefined;
  at: number;
}

/**
 * How many accounts the network has created in 24 hours, also if they were deleted since. The lock of their rows lets sign-ups of a network follow each
 * other; the second statement sees what was committed before.
 */
function* countSignUps(network: Buffer, at: number): Steps<number> {
  yield* sql`SELECT id FROM counted_attempt WHERE subject = ${network} AND expires_at > ${at} ORDER BY id ${forUpdate}`;
  // Not those of the future: the clock was set back.
  const [counted] = yield* sql<{ accounts: number }>`
    SELECT count(*) AS accounts FROM counted_attempt
    WHERE subject = ${network} AND expires_at > ${at} AND expires_at <= ${at + dayMs + clockSkewMs}`;
  return counted?.accounts ?? 0;
}

function* addSignUp(network: Buffer, at: number): Steps<void> {
  yield* sweep('counted_attempt', 'expires_at', at, swept);
  yield* sql`INSERT INTO counted_attempt (subject, at, expires_at) VALUES (${network}, ${at}, ${at + dayMs})`;
}

/** Uses up the invitation. Changes nothing if it cannot be used, if the name is taken, or if the network has created too many accounts. */
export function* signUp(person: NewPerson): Steps<AccountRow | 'name_taken' | 'link_used' | 'too_many'> {
  const { name, passwordHash, link, network, at } = person;
  if (link !== undefined && (yield* lockLink(link, at)) !== 'new_account') return 'link_used';
  if (network !== undefined && (yield* countSignUps(network, at)) >= limits.signUps) return 'too_many';
  const [account] = yield* sql<AccountRow>`
    INSERT INTO account (name, created_at, password_hash, network)
    VALUES (${name}, ${at}, ${passwordHash}, ${network ?? null})
    ON CONFLICT DO NOTHING RETURNING ${raw(accountColumns)}`;
  if (!account) return 'name_taken';
  if (network !== undefined) yield* addSignUp(network, at);
  if (link !== undefined) yield* sql`DELETE FROM one_time_link WHERE hash = ${link}`;
  return account;
}

/** Whose password a link sets: that of the account with this id, or of a new one. Undefined: the link is unknown or has expired. */
function* lockLink(link: Buffer, at: number): Steps<number | 'new_account' | undefined> {
  const [found] = yield* sql<{ purpose: LinkPurpose; accountId: number | null; expiresAt: number }>`
    SELECT purpose, account_id AS "accountId", expires_at AS "expiresAt" FROM one_time_link WHERE hash = ${link} ${forUpdate}`;
  if (!found || !isLinkValid(found.purpose, found.expiresAt, at)) return undefined;
  return found.accountId ?? (found.purpose === 'invitation' ? 'new_account' : undefined);
}

/** Also false if the clock was set back: the link would live for longer. */
export function isLinkValid(purpose: LinkPurpose, expiresAt: number, at: number): boolean {
  return expiresAt > at && expiresAt <= at + linkLifetimeMs[purpose] + clockSkewMs;
}

/** Without an authority, the operator changes it. */
interface PasswordChange extends PasswordAuthority {
  accountId: number;
  passwordHash: string;
  at: number;
}

/** Ends all sessions and links of the account. Returns false, and changes nothing, if the link, session or previous password is not valid. */
export function* setPassword(change: PasswordChange): Steps<boolean> {
  const { accountId, passwordHash, link, session, previous, at } = change;
  const stored = yield* passwordOf(accountId);
  if (stored === undefined || (previous !== undefined && stored !== previous)) return false;
  if (session !== undefined && (yield* accountOfSession(session, at))?.id !== accountId) return false;
  if (link !== undefined && (yield* lockLink(link, at)) !== accountId) return false;
  yield* sql`DELETE FROM one_time_link WHERE account_id = ${accountId}`;
  yield* sql`DELETE FROM session WHERE account_id = ${accountId}`;
  yield* sql`UPDATE account SET password_hash = ${passwordHash} WHERE id = ${accountId}`;
  return true;
}

interface NewLink {
  hash: Buffer;
  purpose: LinkPurpose;
  /** Null: an invitation to create an account. */
  accountId: number | null;
  at: number;
}

/** Adds nothing if the account does not exist. */
export function* addLink({ hash, purpose, accountId, at }: NewLink): Steps<void> {
  if (accountId !== null && (yield* passwordOf(accountId)) === undefined) return;
  yield* sweep('one_time_link', 'expires_at', at, swept);
  yield* sql`
    INSERT INTO one_time_link (hash, purpose, account_id, expires_at)
    VALUES (${hash}, ${purpose}, ${accountId}, ${at + linkLifetimeMs[purpose]})`;
}
