/** Makes an API key or rotates one, and shows the new key once. */
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type ApiKey, newSecret, RefusedError, type Scope, type Secret, scopes } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import { dayMs, hourMs, limits } from '../core/limits.ts';
import { kind } from '../core/schema.ts';
import { HttpError } from '../http/http-error.ts';
import { formReader, Name } from './forms.ts';
import type { Act } from './pages.ts';
import type { AccountScope } from './scope.ts';
import { sessionOf } from './session.ts';

/** Choices of the forms: the value of each option, and its time in milliseconds. */
const lifetimes = { never: null, '30d': 30 * dayMs, '90d': 90 * dayMs, '365d': 365 * dayMs };
const overlaps = { none: 0, '1h': hourMs, '24h': dayMs, '7d': 7 * dayMs };

const choice = <Choices extends object>(name: string, choices: Choices) =>
  kind<keyof Choices & string>(
    name,
    (value) => typeof value === 'string' && Object.hasOwn(choices, value),
    `be one of ${Object.keys(choices).join(', ')}`,
    { type: 'string' },
  );

const Scopes = kind<Scope[]>(
  'Scopes',
  (value) => {
    const given = new Set(value as Scope[]);
    return given.size > 0 && given.size === (value as Scope[]).length && given.isSubsetOf(new Set(scopes));
  },
  `be at least one of ${scopes.join(', ')}`,
  { type: 'array' },
);

/** Ignored. Pages of release 1.1.0 that are still open send one. */
const token = Type.Optional(Type.Unknown());

export function makeKey(scope: AccountScope): Act {
  const { accounts, record, live } = scope;
  const read = formReader(Type.Object({ name: Name, scopes: Scopes, expires: choice('Lifetime', lifetimes), token }));
  return async (request, reply) => {
    const { account, hash: session } = sessionOf(request);
    const { name, scopes: granted, expires } = read(request);
    const secret = newSecret(live);
    const newKey = { account: { session }, name, scopes: granted, lifetimeMs: lifetimes[expires], secret };
    const key = found(await accounts.addKey(newKey).catch(explainLimit));
    record('key_created', request, { account: account.id, key: key.id });
    return showSecret(scope, request, reply, key, secret);
  };
}

export function rotateKey(scope: AccountScope): Act {
  const { accounts, record, now, live } = scope;
  const read = formReader(Type.Object({ overlap: choice('Overlap', overlaps), token }));
  return async (request, reply) => {
    const { account, hash: session } = sessionOf(request);
    const { overlap } = read(request);
    const secret = newSecret(live);
    const overlapEnd = new Date(now().getTime() + overlaps[overlap]);
    const id = idOf(request);
    // Before the change: what fails after it would lose the new key.
    const { active } = await accounts.listOwnKeys(account.id, 0);
    const old = active.find((key) => key.id === id);
    const key = found(await accounts.rotateKey(id, overlapEnd, secret, session).catch(explainLimit));
    record('key_rotated', request, { account: account.id, key: key.id });
    const oldExpiresAt = old?.expiresAt && old.expiresAt < overlapEnd ? old.expiresAt : overlapEnd;
    return showSecret(scope, request, reply, key, secret, { old, oldExpiresAt });
  };
}

/** Shows the key once, in the response to the form itself: it is never stored, and never part of an address. `rotated`: the key that it replaces. */
function showSecret(
  { pages, baseUrl }: AccountScope,
  request: FastifyRequest,
  reply: FastifyReply,
  key: ApiKey,
  secret: Secret,
  rotated: { old?: ApiKey | undefined; oldExpiresAt?: Date } = {},
): Promise<FastifyReply> {
  const add = `-H 'Content-Type: application/json' -d '{"name": "Biscuit", "categoryId": 7}' `;
  const data = key.scopes.includes('pets:read') ? '' : add;
  const curl = `curl -H 'Authorization: Bearer ${secret.key}' ${data}'${baseUrl ?? baseOf(request)}/pets'`;
  return pages.show(request, reply, 'new-key', { key, secret: secret.key, curl, ...rotated });
}

/** The address that the browser used. It is only shown, to the person who typed it, and only if no shell treats it specially. */
function baseOf({ headers: { host = '' }, protocol }: FastifyRequest): string {
  return /^[A-Za-z0-9._:[\]-]+$/.test(host) ? `${protocol}://${host}/v1` : '/v1';
}

/** Throws ApiError `route_not_found` if `key` is undefined. It does not tell whether the key never existed, has ended, or is someone else's. */
export function found<Key extends ApiKey>(key: Key | undefined): Key {
  if (!key) throw new ApiError('route_not_found', 'You have no such key.');
  return key;
}

/** 0, which no key has, if the path has no valid id. */
export function idOf({ params }: FastifyRequest): number {
  const { id } = params as { id: string };
  return /^[1-9]\d{0,14}$/.test(id) ? Number(id) : 0;
}

function explainLimit(error: unknown): never {
  if (!(error instanceof RefusedError) || error.reason === 'session_ended') throw error;
  if (error.reason === 'too_many_today')
    throw new HttpError(
      'rate_limited',
      { 'retry-after': String(hourMs / 1000) },
      `You have made ${limits.keysPerDay} keys in 24 hours, the most that an account can make: try again later.`,
    );
  throw new ApiError(
    'invalid_body',
    `You have ${limits.activeKeys} active keys, the most that an account can have: revoke one first.`,
  );
}
