/** Guesses which known word a mistyped word means. */

/** The member of `words` that is closest to `word`: at most two letters are missing, added, changed or swapped with a neighbour. Undefined if there is none. */
export function closest(word: string, words: readonly string[]): string | undefined {
  const changesTo = (other: string) => {
    const rows = [Array.from({ length: other.length + 1 }, (_, at) => at)];
    for (let i = 1; i <= word.length; i++) {
      const row = [i];
      for (let j = 1; j <= other.length; j++) {
        const at = (up: number, left: number) => (rows[i - up] ?? row)[j - left] as number;
        const isSwapped = i > 1 && j > 1 && word[i - 1] === other[j - 2] && word[i - 2] === other[j - 1];
        const changed = at(1, 1) + (word[i - 1] === other[j - 1] ? 0 : 1);
        row[j] = Math.min(at(1, 0) + 1, at(0, 1) + 1, changed, isSwapped ? at(2, 2) + 1 : changed);
      }
      rows[i] = row;
    }
    return rows[word.length]?.[other.length] as number;
  };
  const [first] = words.map((other) => ({ other, changes: changesTo(other) })).sort((a, b) => a.changes - b.changes);
  return first && first.changes <= 2 ? first.other : undefined;
}
