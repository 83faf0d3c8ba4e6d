/** Changes of the trail: events of the command line, which a server takes to its log. */
import type { TrailEvent } from '../../core/people.ts';
import type { EventRow } from '../rows.ts';
import { type Steps, sql } from '../steps.ts';

export function* addEvent({ event, account, key, at }: TrailEvent & { at: number }): Steps<void> {
  yield* sql`
    INSERT INTO account_event (event, account_id, key_id, at) VALUES (${event}, ${account ?? null}, ${key ?? null}, ${at})`;
}

/** In the order in which they were added. DELETE … RETURNING returns rows in no defined order (https://sqlite.org/lang_returning.html). */
export function* takeEvents(_: object): Steps<EventRow[]> {
  const taken = yield* sql<EventRow & { id: number | string }>`
    DELETE FROM account_event RETURNING id, event, account_id, key_id, at`;
  return taken.sort((a, b) => Number(a.id) - Number(b.id));
}
