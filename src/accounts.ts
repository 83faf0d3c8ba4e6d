/** Accounts and their API keys: what a key looks like, what is kept of it, and what a store of them must do. */
import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

export const scopes = ['pets:read', 'pets:write'] as const;
export type Scope = (typeof scopes)[number];

export interface Account {
  id: number;
  name: string;
  createdAt: Date;
}

/** What is kept of an API key. The key itself is shown once and never stored. */
export interface ApiKey {
  id: number;
  accountId: number;
  account: string;
  name: string;
  /** The key's first characters, enough to tell keys apart and too few to use. */
  hint: string;
  scopes: Scope[];
  createdAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
  lastUsedAt: Date | null;
  /** How many calls of deprecated operations were made with this key. */
  deprecatedCalls: number;
}

/** One presented key, as only its holder sees it. */
export interface Secret {
  key: string;
  hash: Buffer;
  hint: string;
}

interface NewApiKey {
  account: string;
  name: string;
  scopes: Scope[];
  /** From its creation to its end; null: until it is revoked. */
  lifetimeMs: number | null;
  secret: Secret;
}

export interface KeyUse {
  id: number;
  lastUsedAt: Date;
  deprecatedCalls: number;
}

/** Every method rejects with ApiError `service_unavailable` where the store cannot answer. */
export interface Accounts {
  /** Undefined where the name is taken. */
  addAccount(name: string): Promise<Account | undefined>;
  listAccounts(): Promise<Account[]>;
  /** Removes an account with all its keys; undefined where there is none of this name. */
  removeAccount(name: string): Promise<Account | undefined>;
  /** Undefined where there is no such account. */
  addKey(key: NewApiKey): Promise<ApiKey | undefined>;
  listKeys(account?: string): Promise<ApiKey[]>;
  findKey(hash: Buffer): Promise<ApiKey | undefined>;
  /** Undefined where there is no such key; a key revoked before keeps its first date. */
  revokeKey(id: number): Promise<ApiKey | undefined>;
  /**
   * A new key with the old one's account, name, scopes and lifetime; the old one expires at `oldExpiresAt`, or earlier if
   * it did so already. Undefined where there is no such key, or it was revoked.
   */
  rotateKey(id: number, oldExpiresAt: Date, secret: Secret): Promise<ApiKey | undefined>;
  recordUses(uses: KeyUse[]): Promise<void>;
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const keyFormat = /^(ast_(?:live|test)_[0-9A-Za-z]{30})([0-9A-Za-z]{6})$/;

/** CRC-32 as six Base62 digits: lets secret scanners, and the server before any look-up, tell a key from junk. */
function checksum(text: string): string {
  let digits = '';
  for (let rest = crc32(text); digits.length < 6; rest = Math.floor(rest / 62)) digits = alphabet[rest % 62] + digits;
  return digits;
}

/** Keys of production start `ast_live_`, all others `ast_test_`; neither opens the other's door. */
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

/** SHA-256 without salt or stretching: a key carries 178 random bits, so that its hash cannot be searched. */
export function hashKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** Why a key that is known opens nothing at `now`, or undefined where it does. */
export function rejectionReason(key: ApiKey, now: Date): 'revoked_api_key' | 'expired_api_key' | undefined {
  if (key.revokedAt !== null) return 'revoked_api_key';
  if (key.expiresAt !== null && key.expiresAt <= now) return 'expired_api_key';
  return undefined;
}
