/** The writes of the account pages, as commands like those of commands.ts: hashes are hexadecimal, times milliseconds. */
import {
  attemptWindowMs,
  type LinkPurpose,
  linkLifetimeMs,
  sessionIdleMs,
  sessionLifetimeMs,
  type TrailEvent,
} from '../../people.ts';
import { type AccountRow, accountColumns, type EventRow } from '../rows.ts';
import type { Connection } from './connection.ts';

/** Each session, link or attempt that is added also deletes a few that are out of date: more than it adds. */
const swept = 10;

export function preparePeople(connection: Connection) {
  const sql = <Parameters extends unknown[], Row = unknown>(text: string) =>
    connection.prepare<Parameters, Row>(text).safeIntegers(false);

  const insertPerson = sql<[string, number, string], AccountRow>(
    `INSERT INTO account (name, created_at, password_hash) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING ${accountColumns}`,
  );
  const updatePassword = sql<[string, number, string | null]>(
    'UPDATE account SET password_hash = ? WHERE id = ? AND password_hash IS coalesce(?, password_hash)',
  );
  const insertSession = sql<[Buffer, number, number, number, string]>(
    `INSERT INTO session (hash, created_at, used_at, account_id)
     SELECT ?, ?, ?, id FROM account WHERE id = ? AND password_hash = ?`,
  );
  const sweepSessions = sql<[number]>(
    `DELETE FROM session WHERE hash IN (SELECT hash FROM session WHERE used_at <= ? ORDER BY used_at LIMIT ${swept})`,
  );
  const touchSession = sql<[number, Buffer, number, number]>(
    'UPDATE session SET used_at = max(used_at, ?) WHERE hash = ? AND created_at > ? AND used_at > ?',
  );
  const deleteSession = sql<[Buffer]>('DELETE FROM session WHERE hash = ?');
  const deleteSessions = sql<[number]>('DELETE FROM session WHERE account_id = ?');
  const insertLink = sql<[Buffer, string, number | null, number]>(
    `INSERT INTO one_time_link (hash, purpose, account_id, expires_at)
     SELECT * FROM (SELECT ? AS hash, ? AS purpose, ? AS account_id, ? AS expires_at)
     WHERE account_id IS NULL OR account_id IN (SELECT id FROM account)`,
  );
  const sweepLinks = sql<[number]>(
    `DELETE FROM one_time_link WHERE hash IN
       (SELECT hash FROM one_time_link WHERE expires_at <= ? ORDER BY expires_at LIMIT ${swept})`,
  );
  const takeLink = sql<[Buffer, number | null, number]>(
    'DELETE FROM one_time_link WHERE hash = ? AND account_id IS ? AND expires_at > ?',
  );
  const hasLink = sql<[Buffer, number]>(
    `SELECT 1 FROM one_time_link WHERE hash = ? AND purpose = 'invitation' AND account_id IS NULL AND expires_at > ?`,
  );
  const deleteLinks = sql<[number]>('DELETE FROM one_time_link WHERE account_id = ?');
  const findTimes = sql<[Buffer], string>('SELECT times FROM attempt WHERE subject = ?').pluck();
  const upsertTimes = sql<[Buffer, string, number]>(
    `INSERT INTO attempt (subject, times, last_at) VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET times = excluded.times, last_at = excluded.last_at`,
  );
  const deleteTimes = sql<[Buffer]>('DELETE FROM attempt WHERE subject = ?');
  const sweepTimes = sql<[number]>(
    `DELETE FROM attempt WHERE subject IN
       (SELECT subject FROM attempt WHERE last_at <= ? ORDER BY last_at LIMIT ${swept})`,
  );
  const insertEvent = sql<[string, number | null, number | null, number]>(
    'INSERT INTO account_event (event, account_id, key_id, at) VALUES (?, ?, ?, ?)',
  );
  const listEvents = sql<[], EventRow>('SELECT event, account_id, key_id, at FROM account_event ORDER BY id');
  const deleteEvents = sql<[]>('DELETE FROM account_event');

  const bytes = (hex: string) => Buffer.from(hex, 'hex');
  const timesOf = (subject: Buffer, at: number): number[] =>
    (JSON.parse(findTimes.get(subject) ?? '[]') as number[]).filter((time) => time > at - attemptWindowMs);

  return {
    signUp({ name, passwordHash, link, at }: SignUp): AccountRow | 'name_taken' | 'link_used' {
      if (link !== undefined && hasLink.get(bytes(link), at) === undefined) return 'link_used';
      const account = insertPerson.get(name, at, passwordHash);
      if (!account) return 'name_taken';
      if (link !== undefined) takeLink.run(bytes(link), null, at);
      return account;
    },

    setPassword({ accountId, passwordHash, link, previous = null, at }: PasswordChange): boolean {
      if (link !== undefined && takeLink.run(bytes(link), accountId, at).changes === 0) return false;
      if (updatePassword.run(passwordHash, accountId, previous).changes === 0) return false;
      deleteLinks.run(accountId);
      deleteSessions.run(accountId);
      return true;
    },

    addSession({ hash, accountId, passwordHash, at }: AddedSession): boolean {
      sweepSessions.run(at - sessionIdleMs);
      return insertSession.run(bytes(hash), at, at, accountId, passwordHash).changes > 0;
    },

    touchSession({ hash, at }: { hash: string; at: number }): void {
      touchSession.run(at, bytes(hash), at - sessionLifetimeMs, at - sessionIdleMs);
    },

    endSession({ hash }: { hash: string }): void {
      deleteSession.run(bytes(hash));
    },

    endSessions({ accountId }: { accountId: number }): void {
      deleteSessions.run(accountId);
    },

    addLink({ hash, purpose, accountId, at }: AddedLink): void {
      sweepLinks.run(at);
      insertLink.run(bytes(hash), purpose, accountId, at + linkLifetimeMs[purpose]);
    },

    countAttempt({ subjects, at }: { subjects: { subject: string; max: number }[]; at: number }): number | undefined {
      sweepTimes.run(at - attemptWindowMs);
      const counted = subjects.map(({ subject, max }) => ({
        max,
        id: bytes(subject),
        times: timesOf(bytes(subject), at),
      }));
      const full = counted.filter(({ times, max }) => times.length >= max);
      // The attempt that leaves the window makes room for the next.
      if (full.length > 0)
        return Math.max(...full.map(({ times, max }) => (times.at(-max) as number) + attemptWindowMs));
      for (const { id, times } of counted) upsertTimes.run(id, JSON.stringify([...times, at]), at);
      return undefined;
    },

    forgetAttempts({ subjects, at }: { subjects: { subject: string; all: boolean }[]; at: number }): void {
      for (const { subject, all } of subjects) {
        const id = bytes(subject);
        const times = all ? [] : timesOf(id, at);
        const own = times.lastIndexOf(at);
        if (own >= 0) times.splice(own, 1);
        if (times.length === 0) deleteTimes.run(id);
        else upsertTimes.run(id, JSON.stringify(times), times.at(-1) as number);
      }
    },

    addEvent({ event, account, key, at }: TrailEvent & { at: number }): void {
      insertEvent.run(event, account ?? null, key ?? null, at);
    },

    takeEvents(_: object): EventRow[] {
      // DELETE … RETURNING returns rows in no defined order (https://sqlite.org/lang_returning.html).
      const events = listEvents.all();
      deleteEvents.run();
      return events;
    },
  };
}

interface SignUp {
  name: string;
  passwordHash: string;
  link?: string | undefined;
  at: number;
}

interface PasswordChange {
  accountId: number;
  passwordHash: string;
  link?: string | undefined;
  previous?: string | null | undefined;
  at: number;
}

interface AddedSession {
  hash: string;
  accountId: number;
  passwordHash: string;
  at: number;
}

interface AddedLink {
  hash: string;
  purpose: LinkPurpose;
  accountId: number | null;
  at: number;
}
