/** Counts attempts, such as failed sign-ins. Each is a row of its own, so that no attempt waits for another. */
import { clockSkewMs } from '../../core/limits.ts';
import { bytes, endOneOf, oneOf, type Steps, skipLocked, sql } from '../steps.ts';

/** Each attempt that is counted also deletes this many expired ones at most: more than it adds, so that they do not pile up. */
const swept = 10;

interface Subject {
  /** SHA-256, in hexadecimal. */
  subject: string;
  /** Attempts within `windowMs`. */
  max: number;
  windowMs: number;
}

interface Refusal {
  subject: string;
  since: number;
  until: number;
}

/**
 * Counts an attempt for each subject. If a subject has its `max` attempts already, counts nothing, and returns the one of them that has to wait
 * for longest: until the attempt of `since` leaves the window. Needs a serializable transaction, so that simultaneous attempts cannot exceed the limit.
 */
export function* countAttempt({ subjects, at }: { subjects: Subject[]; at: number }): Steps<Refusal | undefined> {
  let refusal: Refusal | undefined;
  for (const { subject, max } of subjects) {
    // Not those of the future: the clock was set back. The one that leaves the window makes room.
    const [full] = yield* sql<{ at: number | string; expires_at: number | string }>`
      SELECT at, expires_at FROM counted_attempt
      WHERE subject = ${bytes(subject)} AND expires_at > ${at} AND at <= ${at + clockSkewMs}
      ORDER BY expires_at DESC LIMIT 1 OFFSET ${max - 1}`;
    const until = Number(full?.expires_at ?? 0);
    if (full && until > (refusal?.until ?? 0)) refusal = { subject, since: Number(full.at), until };
  }
  if (refusal) return refusal;
  for (const { subject, windowMs } of subjects)
    yield* sql`
    INSERT INTO counted_attempt (subject, at, expires_at) VALUES (${bytes(subject)}, ${at}, ${at + windowMs})`;
  yield* sql`
    DELETE FROM counted_attempt WHERE id ${oneOf}
      SELECT id FROM counted_attempt WHERE expires_at <= ${at} ORDER BY expires_at LIMIT ${swept} ${skipLocked}
    ${endOneOf}`;
  return undefined;
}

/** Takes back one attempt of the time `at` of each subject, or with `all` every attempt. A row that is locked is being taken back already. */
export function* forgetAttempts(input: { subjects: { subject: string; all: boolean }[]; at: number }): Steps<void> {
  for (const { subject, all } of input.subjects) {
    if (all)
      yield* sql`
        DELETE FROM counted_attempt WHERE id ${oneOf}
          SELECT id FROM counted_attempt WHERE subject = ${bytes(subject)} ${skipLocked}
        ${endOneOf}`;
    else
      yield* sql`
      DELETE FROM counted_attempt WHERE id ${oneOf}
        SELECT id FROM counted_attempt WHERE subject = ${bytes(subject)} AND at = ${input.at} LIMIT 1 ${skipLocked}
      ${endOneOf}`;
  }
}
