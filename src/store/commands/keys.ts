/** Changes of API keys. They lock the account's row first, so that their later statements see what was committed before. */

import {
  type KeyRejection,
  keptEndedKeys,
  type Owner,
  type Refusal,
  rejectionReason,
  type Scope,
} from '../../core/accounts.ts';
import { dayMs, limits } from '../../core/limits.ts';
import { type ApiKeyRow, apiKeyColumns, isActive } from '../rows.ts';
import { endOneOf, forUpdate, oneOf, raw, type Steps, sql } from '../steps.ts';
import { accountOf } from './accounts.ts';
import { accountOfSession } from './sessions.ts';

/** The key; undefined if there is none that could be changed; or why nothing was changed. */
type Outcome<Done = ApiKeyRow> = Done | Refusal | undefined;

/** Deletes ended keys but the newest: more than one command adds, so that those of earlier releases go, too. */
function* sweepEnded(accountId: number, at: number): Steps<void> {
  yield* sql`
    DELETE FROM api_key WHERE id ${oneOf}
      SELECT id FROM api_key WHERE account_id = ${accountId} AND NOT (${raw(isActive)} ${at})
      ORDER BY id DESC LIMIT ${keptEndedKeys} OFFSET ${keptEndedKeys}
    ${endOneOf}`;
}

/** `isPerson`: an operator has no limit of keys per day. `freed`: active keys that the change ends. */
function* limitOf(accountId: number, isPerson: boolean, freed: number, at: number): Steps<Refusal | undefined> {
  const [active] = yield* sql<{ keys: number }>`
    SELECT count(*) AS keys FROM api_key WHERE account_id = ${accountId} AND ${raw(isActive)} ${at}`;
  if ((active?.keys ?? 0) - freed >= limits.activeKeys) return 'too_many';
  if (!isPerson) return undefined;
  // The newest ones, because an account of an earlier release may have any number of ended keys.
  const [today] = yield* sql<{ keys: number }>`
    SELECT count(*) AS keys FROM (
      SELECT created_at FROM api_key WHERE account_id = ${accountId} ORDER BY id DESC LIMIT ${limits.keysPerDay}
    ) AS newest WHERE created_at > ${at - dayMs} AND created_at <= ${at}`;
  return (today?.keys ?? 0) >= limits.keysPerDay ? 'too_many_today' : undefined;
}

/** Whether a key was made by the form with this hash. The lock of its account lets the forms of a person follow each other. */
function* isUsed(form: Buffer | undefined): Steps<boolean> {
  return form !== undefined && (yield* sql`SELECT key_id FROM form_token WHERE hash = ${form}`).length > 0;
}

interface KeyToInsert {
  name: string;
  /** Separated by one space. */
  scopes: string;
  lifetimeMs: number | null;
  hint: string;
  hash: Buffer;
  /** SHA-256 of the form that asks for it. */
  form?: Buffer | undefined;
  at: number;
}

function* insertKey(accountId: number, input: KeyToInsert): Steps<ApiKeyRow> {
  const { name, scopes, lifetimeMs, hint, hash, form, at } = input;
  const expiresAt = lifetimeMs === null ? null : at + lifetimeMs;
  const [added] = yield* sql<{ id: number }>`
    INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at, lifetime_ms, expires_at)
    VALUES (${accountId}, ${name}, ${hint}, ${hash}, ${scopes}, ${at}, ${lifetimeMs}, ${expiresAt})
    RETURNING id`;
  if (form) yield* sql`INSERT INTO form_token (key_id, hash) VALUES (${added?.id}, ${form})`;
  yield* sweepEnded(accountId, at);
  const [key] = yield* sql<ApiKeyRow>`SELECT ${raw(apiKeyColumns)} WHERE api_key.id = ${added?.id}`;
  return key as ApiKeyRow;
}

interface NewKey extends KeyToInsert {
  owner: Owner;
  /** Refuses the name of an active key. */
  isNewName?: boolean;
}

export function* addKey({ owner, isNewName, ...input }: NewKey): Steps<Outcome> {
  const isPerson = typeof owner !== 'string';
  const account = yield* accountOf(owner, input.at);
  if (!account) return isPerson ? 'session_ended' : undefined;
  if (yield* isUsed(input.form)) return 'form_used';
  if (isNewName) {
    const same = yield* sql`
      SELECT id FROM api_key WHERE account_id = ${account.id} AND name = ${input.name} AND ${raw(isActive)} ${input.at} LIMIT 1`;
    if (same.length > 0) return 'name_exists';
  }
  const refusal = yield* limitOf(account.id, isPerson, 0, input.at);
  return refusal ?? (yield* insertKey(account.id, input));
}

/** A key, and the session of the person who changes it; undefined: the operator. */
interface ChangedKey {
  id: number;
  session?: Buffer | undefined;
  at: number;
}

/** Locks the account of the key. Returns the key, or undefined if it does not belong to the account of the session. */
function* lockKey({ id, session, at }: ChangedKey): Steps<ApiKeyRow | 'session_ended' | undefined> {
  const account = session && (yield* accountOfSession(session, at));
  if (session && !account) return 'session_ended';
  if (!session)
    yield* sql`SELECT id FROM account WHERE id = (SELECT account_id FROM api_key WHERE id = ${id}) ${forUpdate}`;
  const [key] = yield* sql<ApiKeyRow>`SELECT ${raw(apiKeyColumns)} WHERE api_key.id = ${id}`;
  return !account || key?.accountId === account.id ? key : undefined;
}

export function* revokeKey(input: ChangedKey): Steps<Outcome> {
  const key = yield* lockKey(input);
  if (typeof key !== 'object' || key.revokedAt !== null) return key;
  yield* sql`UPDATE api_key SET revoked_at = ${input.at} WHERE id = ${input.id}`;
  yield* sweepEnded(key.accountId, input.at);
  return { ...key, revokedAt: input.at };
}

interface KeyChange extends ChangedKey {
  name: string;
  /** Separated by one space. */
  scopes: string;
  /** In milliseconds; null: as it is. */
  expiresAt: number | null;
}

/** Never gives the key more than it has. The lifetime follows the end, because a successor gets it. */
export function* changeKey(input: KeyChange): Steps<Outcome> {
  const key = yield* lockKey(input);
  if (typeof key !== 'object') return key;
  const { id, name, scopes, expiresAt } = input;
  if (rejectionReason(key, input.at)) return undefined;
  if (!scopes.split(' ').every((scope) => hasScope(key, scope))) return 'scope_added';
  if (expiresAt !== null && expiresAt > (key.expiresAt ?? expiresAt)) return 'end_postponed';
  yield* sql`
    UPDATE api_key SET name = ${name}, scopes = ${scopes}, expires_at = coalesce(${expiresAt}, expires_at),
      lifetime_ms = coalesce(${expiresAt} - created_at, lifetime_ms)
    WHERE id = ${id}`;
  return { ...key, name, scopes, expiresAt: expiresAt ?? key.expiresAt };
}

/** `oldExpiresAt`: in milliseconds. */
interface Rotation extends ChangedKey {
  oldExpiresAt: number;
  hint: string;
  hash: Buffer;
  form?: Buffer | undefined;
}

export function* rotateKey(input: Rotation): Steps<Outcome<{ key: ApiKeyRow; old: ApiKeyRow }>> {
  const old = yield* lockKey(input);
  if (typeof old !== 'object') return old;
  const { id, at, oldExpiresAt, session, form } = input;
  if (yield* isUsed(form)) return 'form_used';
  if (rejectionReason(old, at)) return undefined;
  const [{ successor, lifetimeMs }] = (yield* sql`
    SELECT successor_id AS successor, lifetime_ms AS "lifetimeMs" FROM api_key LEFT JOIN rotated_key ON key_id = id
    WHERE id = ${id}`) as [{ successor: number | null; lifetimeMs: number | null }];
  if (successor !== null) return undefined;
  const expiresAt = Math.min(old.expiresAt ?? oldExpiresAt, oldExpiresAt);
  const refusal = yield* limitOf(old.accountId, session !== undefined, expiresAt <= at ? 1 : 0, at);
  if (refusal) return refusal;
  const key = yield* insertKey(old.accountId, { ...input, name: old.name, scopes: old.scopes, lifetimeMs });
  yield* sql`INSERT INTO rotated_key (key_id, successor_id) VALUES (${id}, ${key.id})`;
  // Without an overlap it is revoked: it must not work on a server whose clock is behind, or after a clock was set back.
  const revokedAt = expiresAt <= at ? at : null;
  yield* sql`UPDATE api_key SET expires_at = ${expiresAt}, revoked_at = ${revokedAt} WHERE id = ${id}`;
  return { key, old: { ...old, expiresAt, revokedAt } };
}

const hasScope = ({ scopes }: Pick<ApiKeyRow, 'scopes'>, scope: string) => scopes.split(' ').includes(scope);

/**
 * Why the key that asks for a change is rejected in its transaction; undefined if it is active at `at`, in milliseconds, and has the scope, if one is
 * needed. Takes no lock.
 */
export function* rejectionOfKey(keyId: number, at: number, scope?: Scope): Steps<KeyRejection | undefined> {
  const [key] = yield* sql<Pick<ApiKeyRow, 'revokedAt' | 'expiresAt' | 'scopes'>>`
    SELECT revoked_at AS "revokedAt", expires_at AS "expiresAt", scopes FROM api_key WHERE id = ${keyId}`;
  if (!key) return 'invalid_api_key';
  return rejectionReason(key, at) ?? (scope === undefined || hasScope(key, scope) ? undefined : 'insufficient_scope');
}
