/** Records the use of API keys, and deletes what is only kept for a time. */
import { retryKeptMs } from '../../core/idempotency.ts';
import { clockSkewMs, messageAgeMs } from '../../core/limits.ts';
import { type Counts, dayOf, type KeyError, keptDays, keptErrors } from '../../core/usage.ts';
import { eachOf, endOneOf, forUpdate, oneOf, raw, type Steps, skipLocked, sql, sweep } from '../steps.ts';

/** A server's counts for a key on the day of `lastUsedAt`. Times are in milliseconds. */
interface UsedKey extends Counts {
  id: number;
  lastUsedAt: number;
  deprecatedCalls: number;
  /** In order. */
  errors: (Omit<KeyError, 'at'> & { at: number })[];
}

/** Messages, and Idempotency-Keys, that one call deletes at most: after an import there may be millions. */
const swept = 500;

/** Parts of the statements that read uses from JSON. */
const numberOf = (name: string) => `CAST(value ->> '${name}' AS bigint)`;
const numbers = ['id', 'day', 'succeeded', 'clientErrors', 'rateLimited', 'serverErrors', 'deprecatedCalls', 'errorAt'];
const keyId = raw(numberOf('id'));
const errorAt = raw(numberOf('at'));
const calls = raw(`sum(${numberOf('deprecatedCalls')})`);
const lastUse = raw(`max(${numberOf('lastUsedAt')})`);
const columns = raw(numbers.map(numberOf).join());

/**
 * Adds the uses, at most one of a key and day, in a fixed number of statements, because each takes a round trip. Servers call it every minute if they
 * have requests, so it also deletes what is kept for days only.
 */
export function* recordUses({ uses, at }: { uses: UsedKey[]; at: number }): Steps<void> {
  const given = JSON.stringify(uses.map(({ id }) => ({ id })));
  // In this order, so that two servers do not wait for each other. The locks also keep the keys, to which the rows refer, until the commit.
  const keys = yield* sql<{ id: number }>`
    SELECT id FROM api_key WHERE id ${oneOf} SELECT ${keyId} FROM ${eachOf}(${given}) ${endOneOf} ORDER BY id ${forUpdate}`;
  const ids = new Set(keys.map((key) => key.id));
  const ofKnown = uses.filter((use) => ids.has(use.id));
  const counts = ofKnown.map(({ errors, ...use }) => {
    const last = errors.at(-1);
    return { ...use, day: dayOf(use.lastUsedAt), error: last?.code ?? null, errorAt: last?.at ?? null };
  });
  const known = JSON.stringify(counts);
  yield* sql`
    UPDATE api_key SET deprecated_calls = deprecated_calls + calls,
      last_used_at = CASE WHEN last_used_at > at AND last_used_at <= ${at + clockSkewMs} THEN last_used_at ELSE at END
    FROM (SELECT ${keyId} AS key_id, ${calls} AS calls, ${lastUse} AS at FROM ${eachOf}(${known}) GROUP BY 1) AS use WHERE id = key_id`;
  // WHERE: SQLite would take ON for the condition of a join.
  yield* sql`
    INSERT INTO api_key_usage AS kept
      (key_id, day, succeeded, client_errors, rate_limited, server_errors, deprecated_calls, error_at, error_code)
    SELECT ${columns}, value ->> 'error' FROM ${eachOf}(${known}) WHERE true
    ON CONFLICT (key_id, day) DO UPDATE SET
      succeeded = kept.succeeded + excluded.succeeded,
      client_errors = kept.client_errors + excluded.client_errors,
      rate_limited = kept.rate_limited + excluded.rate_limited,
      server_errors = kept.server_errors + excluded.server_errors,
      deprecated_calls = kept.deprecated_calls + excluded.deprecated_calls,
      error_code = CASE WHEN excluded.error_at >= coalesce(kept.error_at, 0) THEN excluded.error_code ELSE kept.error_code END,
      error_at = CASE WHEN excluded.error_at >= coalesce(kept.error_at, 0) THEN excluded.error_at ELSE kept.error_at END`;
  const errors = ofKnown.flatMap(({ id, errors }) => errors.map((error) => ({ ...error, id })));
  if (errors.length > 0) yield* keepErrors(JSON.stringify(errors), at + clockSkewMs);
  yield* sweepUsage(dayOf(at) - keptDays, uses.length);
  yield* sweep('message', 'created_at', at - messageAgeMs, swept);
  yield* sweep('idempotency', 'created_at', at - retryKeptMs, swept);
}

/**
 * Adds errors, and deletes those of their keys that are no longer among the last ones. Of a commit whose reply was lost, none is added twice. `latest`: a
 * later one is of a clock that was ahead, and the first to go: otherwise it would stay, and keep out those that follow, until that time.
 */
function* keepErrors(errors: string, latest: number): Steps<void> {
  yield* sql`
    INSERT INTO api_key_error (key_id, at, operation, code, request_id)
    SELECT ${keyId}, ${errorAt}, value ->> 'operation', value ->> 'code', value ->> 'requestId' FROM ${eachOf}(${errors}) WHERE true
    ON CONFLICT DO NOTHING`;
  yield* sql`
    DELETE FROM api_key_error WHERE (key_id, at, request_id) IN (
      SELECT key_id, at, request_id FROM (
        SELECT key_id, at, request_id,
          row_number() OVER (PARTITION BY key_id ORDER BY at <= ${latest} DESC, at DESC, request_id DESC) AS place
        FROM api_key_error WHERE key_id ${oneOf} SELECT ${keyId} FROM ${eachOf}(${errors}) ${endOneOf}
      ) AS kept WHERE place > ${keptErrors})`;
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
