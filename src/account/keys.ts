/** The account pages of API keys: the list of them, with the forms that make one, rotate one and revoke one; and the requests of one key by day. */
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
import { requirement } from '../core/schema.ts';
import { rateLimited } from '../http/errors.ts';
import type { App } from '../http/operation.ts';
import { FormError, formReader, Name } from './forms.ts';
import { newKeyPage, type Show } from './pages.ts';
import type { AccountScope } from './scope.ts';
import { refuseOther, sessionOf } from './session.ts';
import { shownDays, usageOf } from './usage.ts';

/** Ended keys that the page shows. */
const maxEnded = 20;

/** The end of a key is announced for this long before it. */
const announcedMs = 14 * dayMs;

/** Adds `/account` with its forms, and `/account/keys/:id`. They need a session. */
export function keys(app: App, scope: AccountScope): void {
  const { accounts, baseUrl, live, now, pages, record, removed, sessions } = scope;

  const listKeys = (request: FastifyRequest, maxEnded = keptEndedKeys) =>
    accounts.listOwnKeys(sessionOf(request).account.id, maxEnded);

  /** Also if it has ended. `old`: the key that it replaces. */
  async function findKey(request: FastifyRequest, id: number) {
    const { active, ended } = await listKeys(request);
    const all = [...active, ...ended];
    const key = found(all.find((own) => own.id === id));
    return {
      key: withEnd(key),
      isActive: active.some((own) => own.id === id),
      old: all.find((own) => own.replacedBy === key.hint),
    };
  }

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
      makes: active.length === 0 || (error && changed === 0),
      nameExists: error?.message === nameExists,
      // Not what a form beside it chose.
      given: chosen?.expires === undefined ? { scopes, expires: '90d' } : { scopes: [], ...chosen },
      overlapOf: (id: number) => (id === changed ? chosen?.overlap : undefined),
    });
  };

  /** Makes a key, and leads to the page that shows it once. Shown in the response to the form, each reload would make another key. */
  async function issue(
    event: 'key_created' | 'key_rotated',
    request: FastifyRequest,
    reply: FastifyReply,
    make: (secret: Secret, session: Buffer) => Promise<ApiKey | undefined>,
  ) {
    const { account, hash } = sessionOf(request);
    const secret = newSecret(live);
    const { id } = found(await make(secret, hash).catch(explainLimit));
    record(event, request, account.id, id);
    sessions.keep(request, reply, `${id} ${secret.key}`);
    return pages.redirect(reply, newKeyPage);
  }

  pages.route(app, '', showList, {
    async '/keys'(request, reply) {
      const { account: shown, name, scopes, expires, anyway } = readNew(request);
      refuseOther(shown, sessionOf(request).account);
      if (!anyway && (await listKeys(request, 0)).active.some((key) => key.name === name))
        throw new FormError([{ field: 'name', text: nameExists }]);
      return issue('key_created', request, reply, (secret, session) =>
        accounts.addKey({ account: { session }, name, scopes, lifetimeMs: lifetimes[expires], secret }),
      );
    },
    async '/keys/:id/rotate'(request, reply) {
      const id = idOf(request);
      const { overlap } = readRotation(request);
      const oldEnd = new Date(now().getTime() + overlaps[overlap]);
      return issue('key_rotated', request, reply, (secret, session) => accounts.rotateKey(id, oldEnd, secret, session));
    },
    async '/keys/:id/revoke'(request, reply) {
      readNothing(request);
      const { account, hash } = sessionOf(request);
      const { id } = found(await accounts.revokeKey(idOf(request), hash));
      record('key_revoked', request, account.id, id);
      return pages.redirect(reply, '?done=revoked');
    },
  });

  // The secret comes from the browser: it is never stored, and never part of an address.
  pages.route(app, newKeyPage, async (request, reply) => {
    const text = sessions.take(request, reply);
    if (text === undefined) return pages.redirect(reply, '?done=shown');
    const [id, secret] = text.split(' ');
    const { key, old } = await findKey(request, Number(id));
    const add = `-H 'Content-Type: application/json' -d '{"name": "Biscuit", "categoryId": 7}' `;
    const data = key.scopes.includes('pets:read') ? '' : add;
    const curl = `curl -H 'Authorization: Bearer ${secret}' ${data}'${baseUrl ?? baseOf(request)}/pets'`;
    return pages.show(request, reply, 'new-key', { key, secret, curl, old });
  });

  pages.route(app, '/keys/:id', async (request, reply) => {
    const id = idOf(request);
    const found = await findKey(request, id);
    const [days, errors] = await Promise.all([accounts.listUsage(id, shownDays), accounts.listErrors(id)]);
    const usage = usageOf(days, now(), removed());
    return pages.show(request, reply, 'key', { ...found, usage, errors, overlapOf: () => undefined });
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

const readNew = formReader(
  Type.Object({
    account: Type.Optional(Name),
    name: Name,
    scopes: Scopes,
    expires: choice(lifetimes),
    anyway: Type.Optional(Type.Literal('yes')),
    token,
  }),
);
const readRotation = formReader(Type.Object({ overlap: choice(overlaps), token }));
const readNothing = formReader(Type.Object({}));

/** The address that the browser used. It is only shown, to the person who typed it, and only if no shell treats it specially. */
function baseOf({ headers: { host = '' }, protocol }: FastifyRequest): string {
  return /^[A-Za-z0-9._:[\]-]+$/.test(host) ? `${protocol}://${host}/v1` : '/v1';
}

/** It does not tell whether the key never existed, has ended, or is someone else's. */
const noKey = new ApiError('route_not_found', 'You have no such key, or it was rotated or revoked in the meantime.');

function found<Key extends ApiKey>(key: Key | undefined): Key {
  if (!key) throw noKey;
  return key;
}

function idOf({ params }: FastifyRequest): number {
  const { id } = params as { id: string };
  if (!/^[1-9]\d{0,14}$/.test(id)) throw noKey;
  return Number(id);
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
