/** Tokens of the forms that make a key: each makes one. A reload of the page with the new key, or Back to it, sends its form again. */
import { hash } from 'node:crypto';
import { ApiError } from '../core/errors.ts';
import { clockSkewMs, limits } from '../core/limits.ts';
import { newToken } from '../core/people.ts';
import { kind } from '../core/schema.ts';

/** Any text, or none: `hashFormToken` explains what is wrong. */
export const FormToken = kind<string>('FormToken', (value) => typeof value === 'string', 'be given once', {
  type: 'string',
});

/** A token for one form of one page. It carries its time. */
export const newFormToken = (now: Date): string => `${now.getTime()}-${newToken().token}`;

/** Whether a session can still have open a form with this token. */
export function isOpen(token: string | undefined, now: Date): token is string {
  const [, at] = /^(\d{1,15})-[A-Za-z0-9_-]{43}$/.exec(token ?? '') ?? [];
  const age = now.getTime() - Number(at);
  // NaN without a valid token.
  return age < limits.sessionLifetime && age > -clockSkewMs;
}

/**
 * The hash by which the store knows the form of an account. Throws ApiError `invalid_body` for a form that a session cannot have had open for so
 * long: a store forgets tokens with their keys, but none of a day, in which a person makes no more keys than it keeps (limits.ts).
 */
export function hashFormToken(token: string | undefined, accountId: number, now: Date): Buffer {
  if (!isOpen(token, now))
    throw new ApiError('invalid_body', 'No key was made: the page was too old. Send the form again.');
  return hash('sha256', `${accountId}:${token}`, 'buffer');
}
