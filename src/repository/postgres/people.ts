/** People, their sessions and links, failed attempts and the trail in PostgreSQL; each method is one statement. */
import {
  attemptWindowMs,
  linkLifetimeMs,
  type People,
  sessionIdleMs,
  sessionLifetimeMs,
  type Trail,
} from '../../people.ts';
import {
  accountColumns,
  type EventRow,
  type LinkRow,
  type PersonRow,
  type SessionRow,
  toAccount,
  toEvent,
  toLink,
  toSession,
} from '../rows.ts';
import type { Pool } from './pool.ts';
import { numberArray, raw, textArray } from './sql.ts';

/** Each session or link that is added also deletes a few that are out of date: more than it adds. */
const swept = 10;

const bytesArray = (values: Buffer[]) => textArray(values.map((value) => `\\x${value.toString('hex')}`));

/** `at` returns the current time in milliseconds. */
export function openPeople(pool: Pool, at: () => number): People {
  return {
    async signUp(name, passwordHash, link) {
      const now = at();
      const [row] = await pool.write<{ outcome: 'added' | 'link_used' | 'name_taken'; id: string }[]>(
        (sql) => sql`SELECT outcome, id FROM sign_up(${name}, ${passwordHash}, ${link ?? null}, ${now})`,
      );
      const { outcome, id } = row as NonNullable<typeof row>;
      return outcome === 'added' ? { id: Number(id), name, createdAt: new Date(now), hasPassword: true } : outcome;
    },

    async findPerson(name) {
      const [row] = await pool.read<PersonRow[]>(
        (sql) => sql`SELECT ${raw(accountColumns)}, password_hash FROM account WHERE name = ${name}`,
      );
      return row && { account: toAccount(row), passwordHash: row.password_hash };
    },

    async setPassword(accountId, passwordHash, link, previous) {
      const [row] = await pool.write<{ done: boolean }[]>(
        (sql) =>
          sql`SELECT set_password(${accountId}, ${passwordHash}, ${link ?? null}, ${previous ?? null}, ${at()}) AS done`,
      );
      return row?.done === true;
    },

    async addSession(hash, accountId, passwordHash) {
      const now = at();
      const rows = await pool.write<{ one: number }[]>(
        (sql) => sql`
          WITH swept AS (
            DELETE FROM session WHERE hash = ANY (ARRAY(
              SELECT hash FROM session WHERE used_at <= ${now - sessionIdleMs}
              ORDER BY used_at LIMIT ${swept} FOR UPDATE SKIP LOCKED
            ))
          )
          INSERT INTO session (hash, account_id, created_at, used_at)
          SELECT ${hash}, id, ${now}, ${now} FROM account
          WHERE id = ${accountId} AND password_hash = ${passwordHash} FOR SHARE
          RETURNING 1 AS one`,
      );
      return rows.length > 0;
    },

    async findSession(hash) {
      const now = at();
      const [row] = await pool.read<SessionRow[]>(
        (sql) => sql`
          SELECT ${raw(accountColumns)}, used_at FROM session JOIN account ON account.id = account_id
          WHERE hash = ${hash} AND session.created_at > ${now - sessionLifetimeMs} AND used_at > ${now - sessionIdleMs}`,
      );
      return row && toSession(row);
    },

    async touchSession(hash) {
      const now = at();
      await pool.write(
        (sql) => sql`
          UPDATE session SET used_at = greatest(used_at, ${now})
          WHERE hash = ${hash} AND created_at > ${now - sessionLifetimeMs} AND used_at > ${now - sessionIdleMs}`,
      );
    },

    async endSession(hash) {
      await pool.write((sql) => sql`DELETE FROM session WHERE hash = ${hash}`);
    },

    async endSessions(accountId) {
      await pool.write((sql) => sql`DELETE FROM session WHERE account_id = ${accountId}`);
    },

    async addLink(hash, purpose, accountId) {
      const now = at();
      await pool.write(
        (sql) => sql`
          WITH swept AS (
            DELETE FROM one_time_link WHERE hash = ANY (ARRAY(
              SELECT hash FROM one_time_link WHERE expires_at <= ${now}
              ORDER BY expires_at LIMIT ${swept} FOR UPDATE SKIP LOCKED
            ))
          )
          INSERT INTO one_time_link (hash, purpose, account_id, expires_at)
          SELECT ${hash}, ${purpose}, ${accountId}, ${now + linkLifetimeMs[purpose]}
          WHERE ${accountId}::bigint IS NULL OR EXISTS (SELECT FROM account WHERE id = ${accountId} FOR KEY SHARE)`,
      );
    },

    async findLink(hash) {
      const [row] = await pool.read<LinkRow[]>(
        (sql) => sql`
          SELECT purpose, ${raw(accountColumns)}
          FROM one_time_link LEFT JOIN account ON account.id = account_id
          WHERE hash = ${hash} AND expires_at > ${at()}`,
      );
      return row && toLink(row);
    },

    async countAttempt(attempts, when) {
      const subjects = bytesArray(attempts.map(({ subject }) => subject));
      const maxima = numberArray(attempts.map(({ max }) => max));
      const [row] = await pool.write<{ next: string | null }[]>(
        (sql) =>
          sql`SELECT count_attempt(${subjects}, ${maxima}, ${when?.getTime() ?? at()}, ${attemptWindowMs}) AS next`,
      );
      return row?.next ? new Date(Number(row.next)) : undefined;
    },

    async forgetAttempts(forgotten, when) {
      const subjects = bytesArray(forgotten.map(({ subject }) => subject));
      const every = textArray(forgotten.map(({ all }) => String(all)));
      await pool.write((sql) => sql`SELECT forget_attempts(${subjects}, ${every}, ${when?.getTime() ?? at()})`);
    },
  };
}

/** `at` returns the current time in milliseconds. */
export function openTrail(pool: Pool, at: () => number): Trail {
  return {
    async add({ event, account = null, key = null }) {
      await pool.write(
        (sql) => sql`
          INSERT INTO account_event (event, account_id, key_id, at) VALUES (${event}, ${account}, ${key}, ${at()})`,
      );
    },

    async take() {
      // A write only if there is something to take: servers ask every few seconds.
      const [found] = await pool.read<{ one: number }[]>((sql) => sql`SELECT 1 AS one FROM account_event LIMIT 1`);
      if (!found) return [];
      const rows = await pool.write<EventRow[]>(
        (sql) => sql`
          WITH taken AS (DELETE FROM account_event RETURNING *)
          SELECT event, account_id, key_id, at FROM taken ORDER BY id`,
      );
      return rows.map(toEvent);
    },
  };
}
