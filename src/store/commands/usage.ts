/** Records the use of API keys. */
import { retryWindowMs } from '../../core/idempotency.ts';
import { clockSkewMs } from '../../core/limits.ts';
import { type Counts, dayOf, keptDays } from '../../core/usage.ts';
import { endOneOf, oneOf, retryRow, retryRows, type Steps, skipLocked, sql } from '../steps.ts';
import { sweepMessages } from './messages.ts';

/** What a server has counted of a key on the day of `lastUsedAt`, in milliseconds. */
interface UsedKey extends Counts {
  id: number;
  lastUsedAt: number;
  deprecatedCalls: number;
  error: string | null;
  errorAt: number | null;
}

/** Messages, and Idempotency-Keys, that one call deletes at most: after an import there may be millions. */
const swept = 500;

/**
 * Adds the uses in ascending order of id, so that two servers do not wait for each other. Servers call it every minute if they have requests, so it also
 * deletes what is only kept for a day.
 */
export function* recordUses({ uses, at }: { uses: UsedKey[]; at: number }): Steps<void> {
  for (const use of uses.toSorted((a, b) => a.id - b.id)) yield* recordUse(use, at);
  yield* sweepUsage(dayOf(at) - keptDays, uses.length);
  yield* sweepMessages(at, swept);
  yield* sweepRetries(at);
}

function* recordUse(use: UsedKey, at: number): Steps<void> {
  const { id, lastUsedAt, deprecatedCalls } = use;
  // The lock on this row also keeps the key until the commit: the next statement refers to it.
  const [key] = yield* sql`
    UPDATE api_key SET deprecated_calls = deprecated_calls + ${deprecatedCalls},
      last_used_at = CASE WHEN last_used_at > ${lastUsedAt} AND last_used_at <= ${at + clockSkewMs} THEN last_used_at ELSE ${lastUsedAt} END
    WHERE id = ${id} RETURNING 1 AS one`;
  if (!key) return;
  yield* sql`
    INSERT INTO api_key_usage AS kept
      (key_id, day, succeeded, client_errors, rate_limited, server_errors, deprecated_calls, error_code, error_at)
    VALUES (${id}, ${dayOf(lastUsedAt)}, ${use.succeeded}, ${use.clientErrors}, ${use.rateLimited}, ${use.serverErrors},
      ${deprecatedCalls}, ${use.error}, ${use.errorAt})
    ON CONFLICT (key_id, day) DO UPDATE SET
      succeeded = kept.succeeded + excluded.succeeded,
      client_errors = kept.client_errors + excluded.client_errors,
      rate_limited = kept.rate_limited + excluded.rate_limited,
      server_errors = kept.server_errors + excluded.server_errors,
      deprecated_calls = kept.deprecated_calls + excluded.deprecated_calls,
      error_code = CASE WHEN excluded.error_at >= coalesce(kept.error_at, 0) THEN excluded.error_code ELSE kept.error_code END,
      error_at = CASE WHEN excluded.error_at >= coalesce(kept.error_at, 0) THEN excluded.error_at ELSE kept.error_at END`;
}

/** Deletes rows of `last` and of days before it: twice as many as were added, so that they do not pile up. */
function* sweepUsage(last: number, added: number): Steps<void> {
  const [oldest] = yield* sql<{ day: number | null }>`SELECT min(day) AS day FROM api_key_usage`;
  const day = oldest?.day ?? null;
  if (day === null || day > last) return;
  yield* sql`
    DELETE FROM api_key_usage WHERE day = ${day} AND key_id ${oneOf}
      SELECT key_id FROM api_key_usage WHERE day = ${day} LIMIT ${2 * added} ${skipLocked}
    ${endOneOf}`;
}

function* sweepRetries(at: number): Steps<void> {
  yield* sql`
    DELETE FROM idempotency WHERE ${retryRow} ${oneOf}
      SELECT ${retryRows} FROM idempotency WHERE created_at <= ${at - retryWindowMs}
      ORDER BY created_at LIMIT ${swept} ${skipLocked}
    ${endOneOf}`;
}
