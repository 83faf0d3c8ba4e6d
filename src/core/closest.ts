/** Guesses which known word a mistyped word means. */

/** Whether at most `changes` letters are missing, added, changed or swapped with a neighbour. */
function isNear(word: string, other: string, changes: number): boolean {
  if (word === other) return true;
  if (changes === 0) return false;
  if (word !== '' && word[0] === other[0] && isNear(word.slice(1), other.slice(1), changes)) return true;
  const near = (dropped: number, added: number) => isNear(word.slice(dropped), other.slice(added), changes - 1);
  const isSwapped = word.length > 1 && word[0] === other[1] && word[1] === other[0];
  return near(1, 1) || near(1, 0) || near(0, 1) || (isSwapped && near(2, 2));
}

/** The member of `words` that is closest to `word`, by at most two changes. Undefined if there is none. */
export const closest = (word: string, words: readonly string[]): string | undefined =>
  words.find((other) => isNear(word, other, 1)) ?? words.find((other) => isNear(word, other, 2));
