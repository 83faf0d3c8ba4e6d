/** The account page of API keys: list them, and the forms that make one, rotate one and revoke one. */
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { type OwnKey, scopes } from '../core/accounts.ts';
import { limits } from '../core/limits.ts';
import type { App } from '../http/operation.ts';
import { type Act, formReader, formRoute, noticeOf, pageRoute, type Show, typedName } from './forms.ts';
import { found, idOf, makeKey, rotateKey, timeOf } from './new-key.ts';
import type { AccountScope } from './scope.ts';
import { sessionOf } from './session.ts';
import { chartSize, shownDays, usageOf } from './usage.ts';

const dayMs = 24 * 60 * 60 * 1000;

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

const notices = { revoked: 'The key is revoked. Requests with it are refused from now on.' };

/** Ended keys that the page shows. */
const maxEnded = 20;

/** The end of a key is announced for this long before it. */
const announcedMs = 14 * dayMs;

/** When an active key ends, as text; undefined if that is not announced yet. */
function endOf({ expiresAt }: OwnKey, now: Date): string | undefined {
  const leftMs = expiresAt === null ? Number.POSITIVE_INFINITY : expiresAt.getTime() - now.getTime();
  if (leftMs > announcedMs) return undefined;
  if (leftMs < dayMs) return 'in less than a day';
  const days = Math.round(leftMs / dayMs);
  return days === 1 ? 'in 1 day' : `in ${days} days`;
}

/** GET at `/account`, and POST for each of its forms. They need a session. */
export function keys(app: App, scope: AccountScope): void {
  const { accounts, exchanges, now, pages, removed } = scope;

  const show: Show = async (request, reply, refusal) => {
    const { account } = sessionOf(request);
    // One more than the page shows, to know whether there are more.
    const [{ active, ended }, uses] = await Promise.all([
      accounts.listOwnKeys(account.id, maxEnded + 1),
      accounts.listOwnUsage(account.id, shownDays),
    ]);
    return pages.show(request, reply, 'keys', {
      title: 'API keys',
      notice: noticeOf(request, notices),
      refusal,
      active: active.map((key) => ({ ...key, end: endOf(key, now()) })),
      ended: ended.slice(0, maxEnded),
      moreEnded: ended.length > maxEnded,
      maxActiveKeys: limits.activeKeys,
      given: refusal === undefined ? noChoices : choicesOf(request),
      overlapOf: (id: number) =>
        refusal && id === idOf(request) ? (request.body as { overlap?: unknown }).overlap : undefined,
      usageOf: ({ id }: OwnKey) => usageOf(uses.get(id) ?? [], now(), removed()),
      chartSize,
      time: timeOf,
    });
  };
  const get: Show = (_request, reply) => pages.redirect(reply, '');

  pageRoute(app, '', { exchanges, show });
  formRoute(app, '/keys', { exchanges, show, get, post: makeKey(scope) });
  // Each key of the page has a field of this form.
  const idOfField = (request: FastifyRequest, field: string) => `${field}-${idOf(request)}`;
  formRoute(app, '/keys/:id/rotate', { exchanges, show, get, post: rotateKey(scope), idOf: idOfField });
  formRoute(app, '/keys/:id/revoke', { exchanges, show, get, post: revokeKey(scope) });
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
