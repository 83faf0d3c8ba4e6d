/** The account pages of API keys: the list of them, with the forms that make one, rotate one and revoke one; and the page of one key, which changes it. */
import { hash } from 'node:crypto';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type ApiKey,
  keptEndedKeys,
  newSecret,
  type OwnKey,
  RefusedError,
  type Secret,
  scopes,
} from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import { dayMs, hourMs, limits } from '../core/limits.ts';
import { newToken } from '../core/people.ts';
import { requirement } from '../core/schema.ts';
import { dateOf, dayOf } from '../core/usage.ts';
import { rateLimited } from '../http/errors.ts';
import type { App } from '../http/operation.ts';
import { FormError, formReader, Name } from './forms.ts';
import type { Show } from './pages.ts';
import type { AccountScope } from './scope.ts';
import { refuseOther, sessionOf } from './session.ts';
import { shownDays, usageOf } from './usage.ts';

/** Ended keys that the page shows. */
const maxEnded = 20;

/** The end of a key is announced for this long before it. */
const announcedMs = 14 * dayMs;

/** Adds `/account` with its forms, and `/account/keys/:id`. They need a session. */
export function keys(app: App, scope: AccountScope): void {
  const { accounts, baseUrl, live, now, pages, rateOf, record, removed } = scope;

  const listKeys = (request: FastifyRequest, maxEnded = keptEndedKeys) =>
    accounts.listOwnKeys(sessionOf(request).account.id, maxEnded);

  function withEnd(key: OwnKey) {
    const leftMs = (key.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) - now().getTime();
    return { ...key, endsSoon: leftMs > 0 && leftMs <= announcedMs };
  }

  const showList: Show = async (request, reply, error) => {
    // One more than the page shows, to know whether there are more.
    const { active, ended } = await listKeys(request, maxEnded + 1);
    // The fields of the form that was refused.
    const chosen = error && (request.body as Record<string, unknown>);
    // 0: the form that makes one.
    const changed = Number((request.params as { id?: string }).id ?? 0);
    return pages.show(request, reply, 'keys', {
      error,
      // Each key has a field of this form.
      idOf: (field) => (changed === 0 ? field : `${field}-${changed}`),
      active: active.map(withEnd),
      ended: ended.slice(0, maxEnded),
      moreEnded: ended.length > maxEnded,
      maxActiveKeys: limits.activeKeys,
      dates: { first: tomorrowOf(now()), last: lastDate },
      rate: await rateOf(request),
      network: sessionOf(request).network,
      token: newToken().token,
      makes: active.length === 0 || (error && changed === 0),
      nameExists: error?.message === nameExists,
      // Not what a form beside it chose.
      given: chosen?.expires === undefined ? { scopes, expires: '90d' } : { scopes: [], ...chosen },
      overlapOf: (id: number) => (id === changed ? chosen?.overlap : undefined),
    });
  };

  /** What a form gives that asks for a key: a new one, the session, and the hash by which the form is known if it is sent again, as by a reload. */
  function keyFor(request: FastifyRequest, token: string | undefined) {
    const { account, hash: session } = sessionOf(request);
    // With all fields: on a page that the browser kept for Back, a person may fill in the form for another key.
    const sent = `${account.id} ${request.url} ${JSON.stringify(request.body)}`;
    return { secret: newSecret(live), session, form: token === undefined ? undefined : hash('sha256', sent, 'buffer') };
  }

  /** Shows a key that was made, in the response to its form. `old`: the key that it replaces. */
  function showNew(request: FastifyRequest, reply: FastifyReply, secret: Secret, key: ApiKey, old?: ApiKey) {
    record(old ? 'key_rotated' : 'key_created', request, key.accountId, key.id);
    const add = `-H 'Content-Type: application/json' -d '{"name": "Biscuit", "categoryId": 7}' `;
    const data = key.scopes.includes('pets:read') ? '' : add;
    const curl = `curl -H 'Authorization: Bearer ${secret.key}' ${data}'${baseUrl ?? baseOf(request)}/pets'`;
    return pages.show(request, reply, 'new-key', { key, old, secret: secret.key, curl });
  }

  pages.route(app, '', showList, {
    async '/keys'(request, reply) {
      const { account: shown, name, scopes, expires, date, anyway, token } = readNew(request);
      refuseOther(shown, sessionOf(request).account);
      const { session, ...made } = keyFor(request, token);
      const end = endOn(date, now());
      const lifetimeMs = end ? end.getTime() - now().getTime() : lifetimes[expires];
      const chosen = { name, scopes, lifetimeMs, isNewName: !anyway };
      const key = await accounts.addKey({ ...chosen, ...made, account: { session } }).catch(explain);
      return showNew(request, reply, made.secret, found(key));
    },
    async '/keys/:id/rotate'(request, reply) {
      const id = idOf(request);
      const { overlap, token } = readRotation(request);
      const { secret, ...person } = keyFor(request, token);
      const oldEnd = new Date(now().getTime() + overlaps[overlap]);
      const { key, old } = found(await accounts.rotateKey(id, oldEnd, secret, person).catch(explain));
      return showNew(request, reply, secret, key, old);
    },
    async '/keys/:id/revoke'(request, reply) {
      readNothing(request);
      const { account, hash } = sessionOf(request);
      const { id } = found(await accounts.revokeKey(idOf(request), hash));
      record('key_revoked', request, account.id, id);
      return pages.redirect(reply, '?done=revoked');
    },
  });

  // 3.0.1, on the same store, leads here after a form, with a cookie that only it can open.
  pages.route(app, '/keys/new', (_request, reply) => pages.redirect(reply, '?done=made'));

  const showKey: Show = async (request, reply, error) => {
    const id = idOf(request);
    const { active, ended } = await listKeys(request);
    const key = found([...active, ...ended].find((own) => own.id === id));
    const [days, errors] = await Promise.all([accounts.listUsage(id, shownDays), accounts.listErrors(id)]);
    const usage = usageOf(days, now(), removed());
    return pages.show(request, reply, 'key', {
      key: withEnd(key),
      isActive: active.some((own) => own.id === id),
      usage,
      errors,
      token: newToken().token,
      overlapOf: () => undefined,
      dates: { first: tomorrowOf(now()), last: key.expiresAt?.toISOString().slice(0, 10) ?? lastDate },
      error,
      given: error ? { scopes: [], ...(request.body as object) } : key,
    });
  };

  pages.route(app, '/keys/:id', showKey, {
    async '/keys/:id'(request, reply) {
      const id = idOf(request);
      const { date, ...change } = readChange(request);
      const { account, hash } = sessionOf(request);
      const expiresAt = endOn(date, now());
      found(await accounts.changeKey(id, { ...change, expiresAt }, hash).catch(explain));
      record('key_changed', request, account.id, id);
      return pages.redirect(reply, `/keys/${id}?done=changed`);
    },
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

/** A date, or the token of the page that shows the form. Open pages of 3.0.1 send neither. */
const optional = Type.Optional(Type.String(requirement('be given once')));

/** Only a warning: two programs can have keys of one name. */
const nameExists = 'You have an active key with this name: choose another, or make it anyway.';

const readNew = formReader(
  Type.Object({
    account: Type.Optional(Name),
    name: Name,
    scopes: Scopes,
    expires: choice(lifetimes),
    date: optional,
    anyway: Type.Optional(Type.Literal('yes')),
    token: optional,
  }),
);
const readRotation = formReader(Type.Object({ overlap: choice(overlaps), token: optional }));
const readChange = formReader(Type.Object({ name: Name, scopes: Scopes, date: optional }));
const readNothing = formReader(Type.Object({}));

/** The last one whose year has four digits, also after a rotation. */
const lastDate = '9998-12-31';
const tomorrowOf = (now: Date) => dateOf(dayOf(now.getTime()) + 1);

/** The beginning of a date such as 2027-03-31, in UTC; undefined if none is given. Throws FormError unless it is in the future. */
function endOn(date: string | undefined, now: Date): Date | undefined {
  if (!date) return undefined;
  const first = tomorrowOf(now);
  const ms = Date.parse(date);
  if (date >= first && date <= lastDate && ms && dateOf(dayOf(ms)) === date) return new Date(ms);
  throw new FormError([{ field: 'date', text: `Expiry date must be from ${first} to ${lastDate} (UTC).` }]);
}

/** The address that the browser used. It is only shown, to the person who typed it, and only if no shell treats it specially. */
function baseOf({ headers: { host = '' }, protocol }: FastifyRequest): string {
  return /^[A-Za-z0-9._:[\]-]+$/.test(host) ? `${protocol}://${host}/v1` : '/v1';
}

/** It does not tell whether the key never existed, has ended, or is someone else's. */
const noKey = new ApiError('route_not_found', 'You have no such key, or it was rotated or revoked in the meantime.');

function found<Found extends object>(key: Found | undefined): Found {
  if (!key) throw noKey;
  return key;
}

function idOf({ params }: FastifyRequest): number {
  const { id } = params as { id: string };
  if (!/^[1-9]\d{0,14}$/.test(id)) throw noKey;
  return Number(id);
}

const scopeAdded = 'Scopes can only be taken away from a key: make another one.';
const endPostponed = "Expiry date must not be after the key's current end.";
const tooMany = `You have ${limits.activeKeys} active keys, the most that an account can have: revoke one first.`;
const tooManyToday = `You have made ${limits.keysPerDay} keys in 24 hours, the most that an account can make: try again later.`;

function explain(error: unknown): never {
  const reason = error instanceof RefusedError ? error.reason : undefined;
  if (reason === 'name_exists') throw new FormError([{ field: 'name', text: nameExists }]);
  if (reason === 'scope_added') throw new FormError([{ field: 'scopes', text: scopeAdded }]);
  if (reason === 'end_postponed') throw new FormError([{ field: 'date', text: endPostponed }]);
  if (reason === 'too_many_today') throw rateLimited(dayMs, tooManyToday);
  if (reason === 'too_many') throw new ApiError('invalid_body', tooMany);
  throw error;
}
