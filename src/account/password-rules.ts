/** Which passwords are accepted (NIST SP 800-63B-4, section 3.1.1). */
import { createRequire } from 'node:module';
import { limits } from '../core/limits.ts';
import { toNfc } from '../core/schema.ts';

const minCharacters = 15;

/** A known password of fewer characters is part of too many words. */
const minPart = 5;

/** A date has as many characters. */
const few = 8;

/** Words and phrases that the dictionary lacks, or has far down. */
const phrases =
  `animalstore petstore iloveyousomuch maytheforcebewithyou correcthorsebatterystaple loremipsumdolor loremipsumdolorsitamet
  thequickbrownfox thequickbrownfoxjumps thequickbrownfoxjumpsoverthelazydog supercalifragilisticexpialidocious qwertyuiopasdfghjklzxcvbnm
  1qaz2wsx3edc4rfv5tgb qaz2wsxedc4rfv p@ssw0rd p4ssw0rd mynameis administrator helloworld`.split(/\s+/);

/** How many of the dictionary's passwords, which are ordered by use, count also as a part of another. With all of them sentences would be refused. */
const mostUsed = 7000;

let known: ReadonlySet<string> | undefined;

/** Reads the dictionary when the first password is chosen: it takes 20 ms and 5 MB. */
function isListed(text: string): boolean {
  if (known === undefined) {
    const require = createRequire(import.meta.url);
    const { dictionary }: typeof import('@zxcvbn-ts/language-common') = require('@zxcvbn-ts/language-common');
    const listed = dictionary['passwords-common'].filter(
      (password, at) => password.length >= (at < mostUsed ? minPart : minCharacters),
    );
    known = new Set([...phrases, ...listed]);
  }
  return known.has(text);
}

/** Why a password is refused, as the end of the sentence "The password …", or undefined. `name`: the name of its account. */
export function passwordFault(password: string, name: string): string | undefined {
  const text = toNfc(password, limits.passwordCharacters);
  // A character is a code point (NIST SP 800-63B-4, section 3.1.1.2).
  const { length } = [...text];
  if (length < minCharacters || length > limits.passwordCharacters)
    return `must have ${minCharacters} to ${limits.passwordCharacters} characters; it has ${length}`;
  const lower = text.toLowerCase();
  const others = lower.replaceAll(toNfc(name, limits.passwordCharacters).toLowerCase(), '');
  if (others !== lower && (others.length <= few || isKnown(others))) return 'must be more than the name of the account';
  const part = periodOf(lower);
  if (part !== lower && isKnown(part))
    return `is a common password written ${lower === part + part ? 'twice' : 'again and again'}`;
  if (part !== lower || new Set(lower).size < 5) return 'must not repeat the same characters';
  if (isKnown(lower)) return 'is too common: choose one that nobody else would think of';
  return undefined;
}

/** The shortest text that gives this one if it is written again and again. */
function periodOf(text: string): string {
  for (let period = 1; period <= text.length / 2; period++) {
    if (text.slice(period) === text.slice(0, -period)) return text.slice(0, period);
  }
  return text;
}

/** Whether the text is a run, one or two known passwords, or one of these repeated, apart from punctuation and what surrounds its letters. */
function isKnown(text: string): boolean {
  const words = text.replace(/[^\p{L}\p{M}\p{N}]/gu, '');
  if (isRun(words)) return true;
  return [text, words]
    .flatMap((form) => [form, form.replace(/^\P{L}+/u, '').replace(/\P{L}+$/u, '')])
    .map(periodOf)
    .some((form) => isListed(form) || isPair(form));
}

/** Whether the steps from one character to the next are of three sizes at most, as in `abcdefghi`, `1122334455` and `147258369`. */
function isRun(text: string): boolean {
  const codes = Array.from(text, (character) => character.codePointAt(0) as number);
  return codes.length > few && new Set(codes.slice(1).map((code, at) => code - (codes[at] as number))).size <= 3;
}

/** Whether the text is two known passwords, or one beside digits: `1q2w3e4r20242024` has letters between the digits. */
function isPair(text: string): boolean {
  const hasLetters = /\p{L}/u.test(text);
  const isPart = (part: string) => isListed(part) || (hasLetters && !/\p{L}/u.test(part));
  for (let end = 1; end < text.length; end++) if (isPart(text.slice(0, end)) && isPart(text.slice(end))) return true;
  return false;
}
