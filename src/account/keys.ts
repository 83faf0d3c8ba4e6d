/** The account pages of API keys: the list of them, with the forms that make one, rotate one and revoke one; and the requests of one key by day. */
import { Type } from '@sinclair/typebox';
import { keptEndedKeys, type OwnKey, scopes } from '../core/accounts.ts';
import { dayMs, limits } from '../core/limits.ts';
import type { App } from '../http/operation.ts';
import { formReader } from './forms.ts';
import { found, idOf, makeKey, rotateKey } from './new-key.ts';
import type { Act, Show } from './pages.ts';
import type { AccountScope } from './scope.ts';
import { sessionOf } from './session.ts';
import { shownDays, usageOf } from './usage.ts';

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

/** Adds `/account` with its forms, and `/account/keys/:id`. They need a session. */
export function keys(app: App, scope: AccountScope): void {
  const { accounts, now, pages, removed } = scope;

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
      active: active.map((key) => ({ ...key, end: endOf(key, now()) })),
      ended: ended.slice(0, maxEnded),
      moreEnded: ended.length > maxEnded,
      maxActiveKeys: limits.activeKeys,
      // Not what a form beside it chose.
      given: chosen?.expires === undefined ? { scopes, expires: 'never' } : { scopes: [], ...chosen },
      overlapOf: (id: number) => (id === changed ? chosen?.overlap : undefined),
      usageOf: ({ id }: OwnKey) => usageOf(uses.get(id) ?? [], now(), removed()),
    });
  };
  pages.route(app, '', showList, {
    '/keys': makeKey(scope),
    '/keys/:id/rotate': rotateKey(scope),
    '/keys/:id/revoke': revokeKey(scope),
  });

  // Also of a key that has ended.
  pages.route(app, '/keys/:id', async (request, reply) => {
    const { active, ended } = await accounts.listOwnKeys(sessionOf(request).account.id, keptEndedKeys);
    const id = idOf(request);
    const key = found([...active, ...ended].find((own) => own.id === id));
    const state = key.revokedAt ? 'Revoked' : ended.includes(key) ? 'Expired' : 'Active';
    const usage = usageOf(await accounts.listUsage(id, shownDays), now(), removed());
    return pages.show(request, reply, 'key', { key, state, usage });
  });
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
