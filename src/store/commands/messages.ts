/** Adds messages of the quickstart. */

import type { KeyRejection } from '../../core/accounts.ts';
import { messageAgeMs } from '../../core/limits.ts';
import type { Message } from '../../core/messages.ts';
import { type Steps, sql, sweep } from '../steps.ts';
import { rejectionOfKey } from './keys.ts';

/** Each new message also deletes this many old ones at most: more than it adds, so that they do not pile up. */
const swept = 10;

/** `keyId`: the API key that adds it; undefined: the operator. */
type NewMessage = Message & { accountId: number; keyId?: number | undefined; maxMessages: number };

/** Adds nothing if the key has ended, or if the account has `maxMessages`. On PostgreSQL, simultaneous messages may exceed that by a few. */
export function* addMessage(input: NewMessage): Steps<KeyRejection | { fullUntil: number } | undefined> {
  const { id, accountId, keyId, message, status, createdAt, maxMessages } = input;
  const at = Date.parse(createdAt);
  const rejection = keyId === undefined ? undefined : yield* rejectionOfKey(keyId, at);
  if (rejection) return rejection;
  const [full] = yield* sql<{ created_at: number }>`
    SELECT created_at FROM message
    WHERE account_id = ${accountId} AND created_at > ${at - messageAgeMs} AND created_at <= ${at}
    ORDER BY created_at DESC LIMIT 1 OFFSET ${maxMessages - 1}`;
  if (full) return { fullUntil: full.created_at + messageAgeMs };
  yield* sql`
    INSERT INTO message (id, account_id, message, status, created_at)
    VALUES (${id}, ${accountId}, ${message}, ${status}, ${at})`;
  yield* sweep('message', 'created_at', at - messageAgeMs, swept);
  return undefined;
}
