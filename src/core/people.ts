/** People who sign in on the account pages: their sessions and one-time links, and the interface of a store of them. */
import { hash, randomBytes } from 'node:crypto';
import type { Account } from './accounts.ts';
import { hourMs } from './limits.ts';

/** An account whose password was right, and the hash of that password. */
export interface Person {
  account: Account;
  passwordHash: string;
}

export interface Session {
  account: Account;
  usedAt: Date;
  /** SHA-256, as base64url, of the network that created the account by open sign-up: limits count all accounts of a network as one. */
  network: string | undefined;
}

export type LinkPurpose = 'invitation' | 'reset';

interface OneTimeLink {
  purpose: LinkPurpose;
  /** The account whose password it sets; null: the person creates an account and chooses its name. */
  account: Account | null;
}

export const linkLifetimeMs: Readonly<Record<LinkPurpose, number>> = {
  invitation: 24 * hourMs,
  reset: hourMs,
};

/** A session ends after this time without use. */
export const sessionIdleMs = hourMs;

/** A secret with 256 random bits for a cookie or a link, and its SHA-256, which alone is stored. */
export function newToken(): { token: string; hash: Buffer } {
  const token = randomBytes(32).toString('base64url');
  return { token, hash: hash('sha256', token, 'buffer') };
}

/** The hash of a token that a client sent; undefined if the text is not a token. */
export function hashToken(token: string): Buffer | undefined {
  return /^[A-Za-z0-9_-]{43}$/.test(token) ? hash('sha256', token, 'buffer') : undefined;
}

/** What entitles a person to set a password: a one-time link, or a session and the previous password. */
export interface PasswordAuthority {
  link?: Buffer;
  session?: Buffer;
  /** The hash that the password must still have. */
  previous?: string;
}

/** Hashes are SHA-256 of tokens. Every method rejects with ApiError `service_unavailable` if the store is unavailable. */
export interface People {
  /**
   * Adds an account with a password. With `link`, uses up the invitation in the same transaction. `network`: SHA-256 of the person's network,
   * as which limits count the account. Resolves to `name_taken`, `link_used` or, if the network has created too many accounts in 24 hours, `too_many`
   * if nothing was changed.
   */
  signUp(
    name: string,
    passwordHash: string,
    link?: Buffer,
    network?: Buffer,
  ): Promise<Account | 'name_taken' | 'link_used' | 'too_many'>;
  /** The account with its password's hash (null: it has none); undefined if there is no such account. */
  findPerson(name: string): Promise<{ account: Account; passwordHash: string | null } | undefined>;
  /**
   * Sets the password, and ends all sessions and links of the account, in one transaction. Resolves to false and changes nothing if the
   * account does not exist, the link or the session is not a valid one of this account, or the password no longer has the hash `previous`: a
   * change that began before a reset must not undo it.
   */
  setPassword(accountId: number, passwordHash: string, authority?: PasswordAuthority): Promise<boolean>;
  /**
   * Begins a session. Resolves to false if the account no longer has this password: a sign-in that was checked before a change of the
   * password must not outlive it.
   */
  addSession(hash: Buffer, accountId: number, passwordHash: string): Promise<boolean>;
  /** Undefined if the session does not exist or has ended. */
  findSession(hash: Buffer): Promise<Session | undefined>;
  /** Records that the session was used now. */
  touchSession(hash: Buffer): Promise<void>;
  endSession(hash: Buffer): Promise<void>;
  /** Ends all sessions of the account of this one. Resolves to false if it has ended. */
  endSessions(session: Buffer): Promise<boolean>;
  /** `accountId` null: an invitation to create an account. */
  addLink(hash: Buffer, purpose: LinkPurpose, accountId: number | null): Promise<void>;
  /** Undefined if the link does not exist, was used or has expired. */
  findLink(hash: Buffer): Promise<OneTimeLink | undefined>;
}

/** What a server records in the trail. Ids only: never a name, a password, a session or a key. */
export const trailEvents = [
  'account_created',
  'account_removed',
  'password_changed',
  'signed_in',
  'sign_in_refused',
  'key_created',
  'key_changed',
  'key_rotated',
  'key_revoked',
] as const;
export type TrailEvent = (typeof trailEvents)[number];

/** What a command prints for the trail. */
export type CommandEvent = TrailEvent | 'account_invited' | 'account_reset';
