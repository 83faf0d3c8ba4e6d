/** Which passwords are accepted (NIST SP 800-63B-4, section 3.1.1.2). */
import { createRequire } from 'node:module';
import { limits } from '../core/limits.ts';
import { toNfc } from '../core/schema.ts';

const minCharacters = 15;

/** Words and phrases that the dictionary lacks, or has far down. */
const phrases =
  `animalstore petstore iloveyousomuch maytheforcebewithyou correcthorsebatterystaple loremipsumdolor loremipsumdolorsitamet
  thequickbrownfox thequickbrownfoxjumps thequickbrownfoxjumpsoverthelazydog supercalifragilisticexpialidocious qwertyuiopasdfghjklzxcvbnm
  1qaz2wsx3edc4rfv5tgb qaz2wsxedc4rfv p@ssw0rd p4ssw0rd mynameis administrator helloworld`.split(/\s+/);

/** Typed in order, from any character on, and backward. */
const sequences = ['1234567890', 'abcdefghijklmnopqrstuvwxyz', 'qwertyuiop', 'asdfghjkl', 'zxcvbnm'];

/** How many of the dictionary's passwords, which are ordered by use, are listed with more of them, or with digits. */
const mostUsed = 500;

/** Of the dictionary's 49,233 passwords 41 are long enough, and none is as plain as these: of 15 to 20 characters, and each word twice. */
function* generated(words: readonly string[]): Generator<string> {
  const runs = sequences
    .flatMap((text) => [text, [...text].toReversed().join('')])
    .flatMap((text) => Array.from(text, (_, at) => text.slice(at) + text.slice(0, at)));
  const characters = Array.from(Array(94), (_, at) => String.fromCharCode(33 + at));
  for (const text of [...characters, ...runs, ...words, ...words.map((word) => `${word}1234567890`)]) {
    yield text + text;
    for (let length = minCharacters; length <= 20; length++)
      yield text.repeat(Math.ceil(length / text.length)).slice(0, length);
  }
}

let listed: ReadonlySet<string> | undefined;

/** Makes the list when the first password is chosen: it takes 30 ms and 4 MB. */
function isListed(text: string): boolean {
  if (listed === undefined) {
    const require = createRequire(import.meta.url);
    const { dictionary }: typeof import('@zxcvbn-ts/language-common') = require('@zxcvbn-ts/language-common');
    const known = dictionary['passwords-common'];
    const long = known.filter((password) => password.length >= minCharacters);
    listed = new Set([...long, ...phrases, ...generated([...phrases, ...known.slice(0, mostUsed)])]);
  }
  return listed.has(text);
}

/** Why a password is refused, as the end of the sentence "The password …", or undefined. `name`: the name of its account, in NFC. */
export function passwordFault(password: string, name: string): string | undefined {
  const text = toNfc(password, limits.passwordCharacters);
  // A character is a code point.
  const { length } = [...text];
  if (length < minCharacters || length > limits.passwordCharacters)
    return `must have ${minCharacters} to ${limits.passwordCharacters} characters; it has ${length}`;
  const lower = text.toLowerCase();
  if (lower === name.toLowerCase()) return 'must not be the name of the account';
  // The whole password, and no part of it.
  if (isListed(lower.replaceAll(' ', ''))) return 'is too common: choose one that nobody else would think of';
  return undefined;
}
