/** Reads of the use of API keys: of the days after `since`, in order. */
import { isActive, type UsageRow } from '../rows.ts';
import { raw, type Steps, sql } from '../steps.ts';

const columns = `
  key_id AS "keyId", day, succeeded, client_errors AS "clientErrors", rate_limited AS "rateLimited", server_errors AS "serverErrors",
  api_key_usage.deprecated_calls AS "deprecatedCalls", error_code AS "errorCode", error_at AS "errorAt"`;

export function listUsage(id: number, since: number): Steps<UsageRow[]> {
  return sql<UsageRow>`
    SELECT ${raw(columns)} FROM api_key_usage WHERE key_id = ${id} AND day > ${since} ORDER BY day`;
}

/** Of the account's keys that are active at `at`. */
export function listOwnUsage(accountId: number, since: number, at: number): Steps<UsageRow[]> {
  return sql<UsageRow>`
    SELECT ${raw(columns)} FROM api_key JOIN api_key_usage ON key_id = id
    WHERE account_id = ${accountId} AND ${raw(isActive)} ${at} AND day > ${since} ORDER BY key_id, day`;
}
