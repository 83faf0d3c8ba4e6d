/** Which passwords are accepted (NIST SP 800-63B-4, section 3.1.1). */
import { limits } from '../core/limits.ts';
import { toNfc } from '../core/schema.ts';
import { createGuesses } from './guesses.ts';

const minCharacters = 15;

/**
 * Why a password is refused whoever uses it, as the end of the sentence "The password …", or undefined. `name`: the name of its account. It may
 * still be too common.
 */
export function passwordFault(password: string, name: string): string | undefined {
  const text = toNfc(password, limits.passwordCharacters);
  // A character is a code point (NIST SP 800-63B-4, section 3.1.1.2).
  const { length } = [...text];
  if (length < minCharacters || length > limits.passwordCharacters)
    return `must have ${minCharacters} to ${limits.passwordCharacters} characters; it has ${length}`;
  if (text.toLowerCase() === name.normalize('NFC').toLowerCase()) return 'must not be the name of the account';
  if (isRepetition(text)) return 'must not repeat the same characters';
  return undefined;
}

/** Whether the text has fewer than 5 different characters, or is a shorter text written several times. */
function isRepetition(text: string): boolean {
  if (new Set(text).size < 5) return true;
  for (let period = 1; period <= text.length / 2; period++) {
    if (text.slice(period) === text.slice(0, -period)) return true;
  }
  return false;
}

/** Passwords that fewer than 10 to this power guesses find are too common. */
const minPower = 12.5;

/** All servers of a process share one thread: its dictionaries take 70 MB of memory while it runs. */
const guesses = createGuesses();

/** The same for a password without such a fault that is too common. Rejects with ApiError `service_unavailable` if that cannot be checked. */
export async function commonFault(password: string, name: string, { powerOf } = guesses): Promise<string | undefined> {
  const power = await powerOf({ password: password.normalize('NFC'), name: name.normalize('NFC') });
  if (power === undefined) return 'takes too long to check: choose another';
  return power < minPower ? 'is too common: choose one that nobody else would think of' : undefined;
}
