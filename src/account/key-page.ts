/** The account page of one API key: its requests by day. */
import { limits } from '../core/limits.ts';
import { requestsOf } from '../core/usage.ts';
import type { App } from '../http/operation.ts';
import { pageRoute, type Show } from './forms.ts';
import { found, idOf, timeOf } from './new-key.ts';
import type { AccountScope } from './scope.ts';
import { sessionOf } from './session.ts';
import { chartSize, figure, shownDays, usageOf } from './usage.ts';

/** GET at `/keys/:id`, also of a key that has ended. It needs a session. */
export function keyPage(app: App, { accounts, exchanges, now, pages, removed }: AccountScope): void {
  const show: Show = async (request, reply) => {
    const { account } = sessionOf(request);
    const { active, ended } = await accounts.listOwnKeys(account.id, limits.endedKeys);
    const id = idOf(request);
    const key = found([...active, ...ended].find((own) => own.id === id));
    const usage = usageOf(await accounts.listUsage(id, shownDays), now(), removed());
    const state = key.revokedAt ? 'Revoked' : ended.includes(key) ? 'Expired' : 'Active';
    const data = { key, state, usage, requestsOf, figure, chartSize, time: timeOf };
    return pages.show(request, reply, 'key', { title: `Usage of ${key.name}`, ...data });
  };
  pageRoute(app, '/keys/:id', { exchanges, show });
}
