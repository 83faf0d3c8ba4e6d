/** Accounts and API keys: the format of a key, what is stored about it, and the interface of a store. */
import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { DayOfUse, KeyError, KeyUse } from './usage.ts';

export const scopes = ['pets:read', 'pets:write'] as const;
export type Scope = (typeof scopes)[number];

export interface Account {
  id: number;
  name: string;
  createdAt: Date;
  /** Whether a person can sign in with a password. */
  hasPassword: boolean;
}

export const maxNameCharacters = 100;

/** How many revoked or expired API keys of an account are kept: the newest. */
export const keptEndedKeys = 100;

/** Unprintable characters. Joiners within words are printable: Persian and other scripts, and many emoji, need them (Unicode 23.2). */
const unprintable = /(?!(?<=\S)[\u200c\u200d]\S)[\p{C}\p{Zl}\p{Zp}]/u;

/** Whether a text can be the name of an account or of a key: 1 to 100 printable characters (code points), no space at either end. */
export function isName(text: string): boolean {
  return text !== '' && [...text].length <= maxNameCharacters && text === text.trim() && !unprintable.test(text);
}

export type Refusal =
  | 'session_ended'
  /** The form has made a key before. */
  | 'form_used'
  /** An active key of the account has the name. */
  | 'name_exists'
  /** Active keys of the account, or keys made in 24 hours (limits.ts). */
  | 'too_many'
  | 'too_many_today'
  /** The change would add a scope to a key, or postpone its end. */
  | 'scope_added'
  | 'end_postponed';

/** A change of an account is refused. Nothing was changed. */
export class RefusedError extends Error {
  readonly reason: Refusal;

  constructor(reason: Refusal) {
    super(reason);
    this.reason = reason;
  }
}

/** The stored data of an API key. The key itself is displayed once, on creation, and never stored. */
export interface ApiKey {
  id: number;
  accountId: number;
  account: string;
  name: string;
  /** The key's first characters: enough to recognize a key, too few to use it. */
  hint: string;
  scopes: Scope[];
  createdAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
  lastUsedAt: Date | null;
  /** Number of calls to deprecated operations with this key. */
  deprecatedCalls: number;
}

/** A key as its account sees it. */
export interface OwnKey extends ApiKey {
  /** The hint of the key that it replaces; null if it was not made by a rotation, or if that key is no longer stored. */
  replaces: string | null;
  /** The hint of the key that replaces it, and its id. */
  replacedBy: string | null;
  replacedById: number | null;
}

/** An active key as its account sees it, with its requests on the current day (UTC), and those of them to deprecated operations. */
export interface ActiveKey extends OwnKey {
  today: number;
  deprecatedToday: number;
}

/** A new key with its hash and hint. Only its holder sees the key. */
export interface Secret {
  key: string;
  hash: Buffer;
  hint: string;
}

/** Who changes an account: the operator, who names it; or its person, by the SHA-256 of a session's token. */
export type Owner = string | { session: Buffer };

/** A key that a request has sent. */
export interface KnownKey extends ApiKey {
  /** SHA-256, as base64url, of the network that created the account by open sign-up: limits count all accounts of a network as one. */
  network: string | undefined;
}

interface NewApiKey {
  account: Owner;
  name: string;
  scopes: Scope[];
  /** From creation to expiry; null: valid until revoked. */
  lifetimeMs: number | null;
  secret: Secret;
  /** SHA-256 of the form that a person has sent: it makes one key, however often it is sent. */
  form?: Buffer | undefined;
  /** Refuses a name that an active key of the account has. */
  isNewName?: boolean;
}

/**
 * Every method rejects with ApiError `service_unavailable` if the store is unavailable, and every change with RefusedError if its
 * `session` has ended. A session changes only its own account.
 */
export interface Accounts {
  /** Undefined if the name is taken. */
  addAccount(name: string): Promise<Account | undefined>;
  listAccounts(): Promise<Account[]>;
  /** Removes the account and all its keys; undefined if it does not exist or, with `passwordHash`, has another password by now. */
  removeAccount(owner: Owner, passwordHash?: string): Promise<Account | undefined>;
  /** Undefined if the account does not exist. Rejects with RefusedError. */
  addKey(key: NewApiKey): Promise<ApiKey | undefined>;
  listKeys(account?: string): Promise<ApiKey[]>;
  /** The first `limit` keys whose ids are `id` or above. */
  keysFrom(id: number, limit: number): Promise<ApiKey[]>;
  /** The keys of an account, newest first: all active ones, and the last `maxEnded` that were revoked or have expired. */
  listOwnKeys(accountId: number, maxEnded: number): Promise<{ active: ActiveKey[]; ended: OwnKey[] }>;
  /** `wasValid`: the key was valid recently, so that its look-up does not wait behind those of strangers. */
  findKey(hash: Buffer, wasValid?: boolean): Promise<KnownKey | undefined>;
  /** Undefined if the key does not exist. A key that is already revoked keeps its revocation date. */
  revokeKey(id: number, session?: Buffer): Promise<ApiKey | undefined>;
  /**
   * Creates a key with the old key's account, name, scopes and lifetime. The old key expires at `oldExpiresAt`, or at its own expiry if
   * that is earlier: `old` is as it is then. Undefined if the key does not exist, has ended or was rotated before. Rejects with RefusedError.
   * `person`: undefined for the operator; `form` as of NewApiKey.
   */
  rotateKey(
    id: number,
    oldExpiresAt: Date,
    secret: Secret,
    person?: { session: Buffer; form?: Buffer | undefined },
  ): Promise<{ key: ApiKey; old: ApiKey } | undefined>;
  /**
   * Gives a key of the session's account this name, these of its scopes and, if `expiresAt` is given, this earlier end. Undefined if the account has no
   * such key, or if it has ended. Rejects with RefusedError.
   */
  changeKey(
    id: number,
    change: Pick<ApiKey, 'name' | 'scopes'> & { expiresAt?: Date | undefined },
    session: Buffer,
  ): Promise<ApiKey | undefined>;
  /** Adds to the stored counts. Uses of a key that no longer exists are ignored. */
  recordUses(uses: KeyUse[]): Promise<void>;
  /** The days on which a key was used, among the last `days`, in order. */
  listUsage(id: number, days: number): Promise<DayOfUse[]>;
  /** The last error responses to a key, the latest first. */
  listErrors(id: number): Promise<KeyError[]>;
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const keyFormat = /^(ast_(?:live|test)_[0-9A-Za-z]{30})([0-9A-Za-z]{6})$/;

/** CRC-32 as six Base62 digits: secret scanners can recognize a key, and the server can reject junk without a lookup. */
function checksum(text: string): string {
  let digits = '';
  for (let rest = crc32(text); digits.length < 6; rest = Math.floor(rest / 62)) digits = alphabet[rest % 62] + digits;
  return digits;
}

/** Production keys start with `ast_live_`, all others with `ast_test_`; neither kind is accepted in the other's deployment. */
export function newSecret(live: boolean): Secret {
  let key = live ? 'ast_live_' : 'ast_test_';
  const hintLength = key.length + 4;
  for (let i = 0; i < 30; i++) key += alphabet[randomInt(62)];
  const hint = key.slice(0, hintLength);
  key += checksum(key);
  return { key, hash: hashKey(key), hint };
}

export function isKeyOf(live: boolean, key: string): boolean {
  const [, text, check] = keyFormat.exec(key) ?? [];
  return text !== undefined && checksum(text) === check && text.startsWith(live ? 'ast_live_' : 'ast_test_');
}

/** SHA-256 without salt or stretching: a key has 178 random bits, so a brute-force search for its hash is infeasible. */
export function hashKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** Why a key is rejected: it does not exist, for example because its account was removed, it has ended, or it lacks the scope. */
export type KeyRejection = 'invalid_api_key' | 'revoked_api_key' | 'expired_api_key' | 'insufficient_scope';

/** Why a key is rejected at `now`, or undefined. Times are dates, or milliseconds. */
export function rejectionReason<Time extends Date | number>(
  { revokedAt, expiresAt }: { revokedAt: Time | null; expiresAt: Time | null },
  now: Time,
): KeyRejection | undefined {
  if (revokedAt !== null) return 'revoked_api_key';
  return expiresAt !== null && expiresAt <= now ? 'expired_api_key' : undefined;
}
