/** The account page of API keys: list them, make one, rotate one, revoke one. */
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type ApiKey, KeyLimitError, newSecret, type Scope, type Secret, scopes } from '../core/accounts.ts';
import { dateText, sunset } from '../core/deprecation.ts';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { kind } from '../core/schema.ts';
import { HttpError } from '../http/errors.ts';
import type { App } from '../http/operation.ts';
import { type Act, formReader, formRoute, Name, noticeOf, pageRoute, type Show, typedName } from './forms.ts';
import type { AccountScope } from './scope.ts';
import { sessionOf } from './session.ts';

const hourMs = 60 * 60 * 1000;
const dayMs = 24 * hourMs;

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
    const given = value as string[];
    return (
      given.length > 0 &&
      new Set(given).size === given.length &&
      given.every((scope) => scopes.some((known) => known === scope))
    );
  },
  `be at least one of ${scopes.join(', ')}`,
  { type: 'array' },
);

interface Choices {
  name: string;
  scopes: string[];
  expires: string;
}

/** What the form for a new key shows at first. */
const noChoices: Choices = { name: '', scopes: [...scopes], expires: 'never' };

/** What the person chose in a form that was refused. */
function choicesOf(request: FastifyRequest): Choices {
  const { scopes: granted, expires } = request.body as { scopes?: string | string[]; expires?: string };
  if (expires === undefined) return noChoices;
  return { name: typedName(request) ?? '', scopes: [granted ?? []].flat(), expires: String(expires) };
}

/** Ended keys that the page shows. */
const maxEnded = 20;

/** GET at `/account`, and POST for each of its forms. They need a session. */
export function keys(app: App, scope: AccountScope): void {
  const { accounts, exchanges, pages } = scope;

  const show: Show = async (request, reply, error) => {
    const { account } = sessionOf(request);
    // One more than the page shows, to know whether there are more.
    const { active, ended } = await accounts.listOwnKeys(account.id, maxEnded + 1);
    return pages.show(request, reply, 'keys', {
      title: 'API keys',
      notice: noticeOf(request, { revoked: 'The key is revoked. Requests with it are refused from now on.' }),
      error,
      active,
      ended: ended.slice(0, maxEnded),
      moreEnded: ended.length > maxEnded,
      maxActiveKeys: limits.activeKeys,
      given: error === undefined ? noChoices : choicesOf(request),
      sunset: dateText(sunset),
      time: timeOf,
    });
  };
  const get: Show = (_request, reply) => pages.redirect(reply, '');

  pageRoute(app, '', { exchanges, show });
  formRoute(app, '/keys', { exchanges, show, get, post: makeKey(scope) });
  formRoute(app, '/keys/:id/rotate', { exchanges, show, get, post: rotateKey(scope) });
  formRoute(app, '/keys/:id/revoke', { exchanges, show, get, post: revokeKey(scope) });
}

function makeKey(scope: AccountScope): Act {
  const { accounts, record, live } = scope;
  const read = formReader(Type.Object({ name: Name, scopes: Scopes, expires: choice('Lifetime', lifetimes) }));
  return async (request, reply) => {
    const { account, hash: session } = sessionOf(request);
    const { name, scopes: granted, expires } = read(request);
    const secret = newSecret(live);
    const newKey = { account: { session }, name, scopes: granted, lifetimeMs: lifetimes[expires], secret };
    const key = found(await accounts.addKey(newKey).catch(explainLimit));
    record('key_created', request, { account: account.id, key: key.id });
    return showSecret(scope, request, reply, { key, secret });
  };
}

function rotateKey(scope: AccountScope): Act {
  const { accounts, record, now, live } = scope;
  const read = formReader(Type.Object({ overlap: choice('Overlap', overlaps) }));
  return async (request, reply) => {
    const { account, hash: session } = sessionOf(request);
    const { overlap } = read(request);
    const secret = newSecret(live);
    const overlapEnd = new Date(now().getTime() + overlaps[overlap]);
    const id = idOf(request);
    const { active } = await accounts.listOwnKeys(account.id, 0);
    const { expiresAt: ownExpiry } = found(active.find((key) => key.id === id));
    const key = found(await accounts.rotateKey(id, overlapEnd, secret, session).catch(explainLimit));
    record('key_rotated', request, { account: account.id, key: key.id });
    const oldExpiresAt = ownExpiry && ownExpiry < overlapEnd ? ownExpiry : overlapEnd;
    return showSecret(scope, request, reply, { key, secret, oldExpiresAt });
  };
}

function revokeKey({ accounts, pages, record }: AccountScope): Act {
  const read = formReader(Type.Object({}));
  return async (request, reply) => {
    const { account, hash: session } = sessionOf(request);
    read(request);
    const { id } = found(await accounts.revokeKey(idOf(request), session));
    record('key_revoked', request, { account: account.id, key: id });
    return pages.redirect(reply, '?done=revoked');
  };
}

interface MadeKey {
  key: ApiKey;
  secret: Secret;
  /** When the key that was rotated expires. */
  oldExpiresAt?: Date;
}

/** Shows the key once, in the response to the form itself: it is never stored, and never part of an address. */
function showSecret(
  { pages, baseUrl }: AccountScope,
  request: FastifyRequest,
  reply: FastifyReply,
  { key, secret, oldExpiresAt }: MadeKey,
): Promise<FastifyReply> {
  const address = `'${baseUrl ?? baseOf(request)}/pets'`;
  const header = `-H 'Authorization: Bearer ${secret.key}'`;
  const curl = key.scopes.includes('pets:read')
    ? `curl ${header} ${address}`
    : `curl ${header} -H 'Content-Type: application/json' -d '{"name": "Biscuit", "categoryId": 7}' ${address}`;
  const data = { title: 'Your new API key', key, secret: secret.key, curl, oldExpiresAt, time: timeOf };
  return pages.show(request, reply, 'new-key', data);
}

/** The address that the browser used. It is only shown, to the person who typed it, and only if no shell treats it specially. */
function baseOf({ headers: { host = '' }, protocol }: FastifyRequest): string {
  return /^[A-Za-z0-9._:[\]-]+$/.test(host) ? `${protocol}://${host}/v1` : '/v1';
}

/** Throws ApiError `route_not_found` if `key` is undefined. It does not tell whether the key never existed, has ended, or is someone else's. */
function found(key: ApiKey | undefined): ApiKey {
  if (!key) throw new ApiError('route_not_found', 'You have no such key.');
  return key;
}

/** 0, which no key has, if the path has no valid id. */
function idOf({ params }: FastifyRequest): number {
  const { id } = params as { id: string };
  return /^[1-9]\d{0,14}$/.test(id) ? Number(id) : 0;
}

function explainLimit(error: unknown): never {
  if (!(error instanceof KeyLimitError)) throw error;
  if (error.reason === 'day')
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

/** A time in UTC, to the minute. */
function timeOf(date: Date): string {
  return `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
