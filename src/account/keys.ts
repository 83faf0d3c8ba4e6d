/** The account pages of API keys: the list of them, with the forms that make one, rotate one and revoke one; and the requests of one key by day. */
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type ApiKey, keptEndedKeys, newSecret, type OwnKey, RefusedError, scopes } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import { dayMs, hourMs, limits } from '../core/limits.ts';
import { requirement } from '../core/schema.ts';
import { rateLimited } from '../http/errors.ts';
import type { App } from '../http/operation.ts';
import { FormError, formReader, Name } from './forms.ts';
import { type Act, newKeyPage, type Show } from './pages.ts';
import type { AccountScope } from './scope.ts';
import { refuseOther, sessionOf } from './session.ts';
import { shownDays, usageOf } from './usage.ts';

/** Ended keys that the page shows. */
const maxEnded = 20;

/** The end of a key is announced for this long before it. */
const announcedMs = 14 * dayMs;

/** Adds `/account` with its forms, and `/account/keys/:id`. They need a session. */
export function keys(app: App, scope: AccountScope): void {
  const { accounts, now, pages, removed } = scope;
  const withEnd = (key: OwnKey) => {
    const leftMs = (key.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) - now().getTime();
    return { ...key, endsSoon: leftMs > 0 && leftMs <= announcedMs };
  };

  const showList: Show = async (request, reply, error) => {
    const { account } = sessionOf(request);
    // One more than the page shows, to know whether there are more.
    const [{ active, ended }, uses] = await Promise.all([
      accounts.listOwnKeys(account.id, maxEnded + 1),
      accounts.listOwnUsage(account.id, shownDays),
    ]);
    // The fields of the form that was refused.
    const chosen = error && (request.body as Record<string, unknown>);
    const changed = idOf(request);
    return pages.show(request, reply, 'keys', {
      error,
      // Each key has a field of this form.
      idOf: (field) => (changed === 0 ? field : `${field}-${changed}`),
      active: active.map(withEnd),
      ended: ended.slice(0, maxEnded),
      moreEnded: ended.length > maxEnded,
      maxActiveKeys: limits.activeKeys,
      makes: active.length === 0 || (error && changed === 0),
      nameExists: error?.message === nameExists,
      // Not what a form beside it chose.
      given: chosen?.expires === undefined ? { scopes, expires: '90d' } : { scopes: [], ...chosen },
      overlapOf: (id: number) => (id === changed ? chosen?.overlap : undefined),
      usageOf: ({ id }: OwnKey) => usageOf(uses.get(id) ?? [], now(), removed(), 'small'),
    });
  };
  pages.route(app, '', showList, {
    '/keys': makeKey(scope),
    '/keys/:id/rotate': rotateKey(scope),
    '/keys/:id/revoke': revokeKey(scope),
  });

  pages.route(app, newKeyPage, showSecret(scope));

  // Also of a key that has ended.
  pages.route(app, '/keys/:id', async (request, reply) => {
    const { active, ended } = await accounts.listOwnKeys(sessionOf(request).account.id, keptEndedKeys);
    const id = idOf(request);
    const key = found([...active, ...ended].find((own) => own.id === id));
    const state = key.revokedAt ? 'Revoked' : ended.includes(key) ? 'Expired' : 'Active';
    const [days, errors] = await Promise.all([accounts.listUsage(id, shownDays), accounts.listErrors(id)]);
    const usage = usageOf(days, now(), removed(), 'large');
    return pages.show(request, reply, 'key', { key: withEnd(key), state, usage, errors, overlapOf: () => undefined });
  });
}

/** Choices of the forms: the value of each option, and its time in milliseconds. */
const lifetimes = { never: null, '30d': 30 * dayMs, '90d': 90 * dayMs, '365d': 365 * dayMs };
const overlaps = { none: 0, '1h': hourMs, '24h': dayMs, '7d': 7 * dayMs };

const choice = <Choices extends object>(choices: Choices) =>
  Type.Union(
    Object.keys(choices).map((value) => Type.Literal(value as keyof Choices & string)),
    requirement(`be one of ${Object.keys(choices).join(', ')}`),
  );

const Scopes = Type.Array(Type.Union(scopes.map((scope) => Type.Literal(scope))), {
  ...requirement(`be at least one of ${scopes.join(', ')}`),
  minItems: 1,
  uniqueItems: true,
});

/** Ignored. Pages of release 1.1.0 that are still open send one. */
const token = Type.Optional(Type.Unknown());

/** Only a warning: two programs can have keys of one name. */
const nameExists = 'You have an active key with this name: choose another, or make it anyway.';

function makeKey(scope: AccountScope): Act {
  const { accounts, record, live } = scope;
  const anyway = Type.Optional(Type.Literal('yes'));
  const form = { account: Type.Optional(Name), name: Name, scopes: Scopes, expires: choice(lifetimes), anyway, token };
  const read = formReader(Type.Object(form));
  return async (request, reply) => {
    const { account, hash: session } = sessionOf(request);
    const { account: shown, name, scopes: granted, expires, anyway } = read(request);
    refuseOther(shown, account);
    if (!anyway && (await accounts.listOwnKeys(account.id, 0)).active.some((key) => key.name === name))
      throw new FormError([{ field: 'name', text: nameExists }]);
    const secret = newSecret(live);
    const newKey = { account: { session }, name, scopes: granted, lifetimeMs: lifetimes[expires], secret };
    const key = found(await accounts.addKey(newKey).catch(explainLimit));
    record('key_created', request, account.id, key.id);
    return leadToSecret(scope, request, reply, { id: key.id, secret: secret.key });
  };
}

function rotateKey(scope: AccountScope): Act {
  const { accounts, record, now, live } = scope;
  const read = formReader(Type.Object({ overlap: choice(overlaps), token }));
  return async (request, reply) => {
    const { account, hash: session } = sessionOf(request);
    const { overlap } = read(request);
    const secret = newSecret(live);
    const overlapEnd = new Date(now().getTime() + overlaps[overlap]);
    const id = idOf(request);
    // Before the change: what fails after it would lose the new key.
    const { active } = await accounts.listOwnKeys(account.id, 0);
    const old = active.find((key) => key.id === id);
    const changed = old && 'This key was rotated or revoked meanwhile.';
    const key = found(await accounts.rotateKey(id, overlapEnd, secret, session).catch(explainLimit), changed);
    record('key_rotated', request, account.id, key.id);
    const oldExpiresAt = old?.expiresAt && old.expiresAt < overlapEnd ? old.expiresAt : overlapEnd;
    const replaced = { oldHint: old?.hint, oldExpiresAt };
    return leadToSecret(scope, request, reply, { id: key.id, secret: secret.key, ...replaced });
  };
}

function revokeKey({ accounts, pages, record }: AccountScope): Act {
  const read = formReader(Type.Object({}));
  return async (request, reply) => {
    const { account, hash: session } = sessionOf(request);
    read(request);
    const { id } = found(await accounts.revokeKey(idOf(request), session));
    record('key_revoked', request, account.id, id);
    return pages.redirect(reply, '?done=revoked');
  };
}

/** Leads to the page that shows a new key once. Shown in the response to the form, each reload would make another key. `old`: the key that it replaces. */
function leadToSecret(
  { pages, sessions }: AccountScope,
  request: FastifyRequest,
  reply: FastifyReply,
  shown: { id: number; secret: string; oldHint?: string | undefined; oldExpiresAt?: Date },
): FastifyReply {
  sessions.keep(request, reply, JSON.stringify(shown));
  return pages.redirect(reply, newKeyPage);
}

/** Shows the key that a form has just made. Its secret comes from the browser: it is never stored, and never part of an address. */
function showSecret({ accounts, pages, sessions, baseUrl }: AccountScope): Show {
  return async (request, reply) => {
    const text = sessions.take(request, reply);
    if (text === undefined) return pages.redirect(reply, '?done=shown');
    const { id, secret, oldHint, oldExpiresAt } = JSON.parse(text);
    const { active, ended } = await accounts.listOwnKeys(sessionOf(request).account.id, keptEndedKeys);
    const key = found([...active, ...ended].find((own) => own.id === id));
    const add = `-H 'Content-Type: application/json' -d '{"name": "Biscuit", "categoryId": 7}' `;
    const data = key.scopes.includes('pets:read') ? '' : add;
    const curl = `curl -H 'Authorization: Bearer ${secret}' ${data}'${baseUrl ?? baseOf(request)}/pets'`;
    const rotated = oldExpiresAt && { oldHint, oldExpiresAt: new Date(oldExpiresAt) };
    return pages.show(request, reply, 'new-key', { key, secret, curl, ...rotated });
  };
}

/** The address that the browser used. It is only shown, to the person who typed it, and only if no shell treats it specially. */
function baseOf({ headers: { host = '' }, protocol }: FastifyRequest): string {
  return /^[A-Za-z0-9._:[\]-]+$/.test(host) ? `${protocol}://${host}/v1` : '/v1';
}

/** Throws ApiError `route_not_found` if `key` is undefined. It does not tell whether the key never existed, has ended, or is someone else's. */
function found<Key extends ApiKey>(key: Key | undefined, why = 'You have no such key.'): Key {
  if (!key) throw new ApiError('route_not_found', why);
  return key;
}

/** 0, which no key has, if the path has no valid id. */
function idOf({ params }: FastifyRequest): number {
  const { id } = params as { id: string };
  return /^[1-9]\d{0,14}$/.test(id) ? Number(id) : 0;
}

function explainLimit(error: unknown): never {
  if (!(error instanceof RefusedError) || error.reason === 'session_ended') throw error;
  if (error.reason === 'too_many_today')
    throw rateLimited(
      dayMs,
      `You have made ${limits.keysPerDay} keys in 24 hours, the most that an account can make: try again later.`,
    );
  throw new ApiError(
    'invalid_body',
    `You have ${limits.activeKeys} active keys, the most that an account can have: revoke one first.`,
  );
}
