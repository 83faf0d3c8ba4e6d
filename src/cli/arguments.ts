/** Parsers of the commands' arguments. Each throws InvalidArgumentError, which says what to give instead. */
import { InvalidArgumentError } from 'commander';
import { isName, type Scope, scopes } from '../core/accounts.ts';

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A parser of `30m`, `24h` or `90d`, which returns milliseconds. */
function durationFrom(least: number): (text: string) => number {
  return (text) => {
    const [, count, unit = ''] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
    const ms = unitMs[unit];
    if (ms === undefined || Number(count) < least)
      throw new InvalidArgumentError(`Give a whole number from ${least} to 99999 and m, h or d, such as 24h.`);
    return Number(count) * ms;
  };
}

/** How long a new key lives. */
export const lifetime = durationFrom(1);

/** How long a key that is rotated still works. */
export const overlap = durationFrom(0);

export function scopeList(text: string): Scope[] {
  const given = text.split(',');
  const unknown = given.filter((scope) => !scopes.some((known) => known === scope));
  if (unknown.length > 0) throw new InvalidArgumentError(`Give one or more of ${scopes.join(',')}.`);
  return scopes.filter((scope) => given.includes(scope));
}

export function keyId(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError('Give the number that key list shows.');
  return Number(text);
}

/** Returns the name in NFC, as the forms of the account pages do: otherwise nobody could sign in with it. */
export function name(text: string): string {
  const normalized = text.normalize('NFC');
  if (!isName(normalized))
    throw new InvalidArgumentError('Give 1 to 100 printable characters, without a space at either end.');
  return normalized;
}
