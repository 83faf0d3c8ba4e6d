/** Remembers what was of use lately. */

/** A map of at most `max` entries. Beyond that, the one that was set longest ago is forgotten. */
export function createRecent<Key, Value>(max: number) {
  const values = new Map<Key, Value>();
  // It goes on from where it was, and an entry that is set again comes last.
  const oldest = values.keys();
  return {
    get: (key: Key) => values.get(key),
    set(key: Key, value: Value): void {
      values.delete(key);
      values.set(key, value);
      if (values.size > max) values.delete(oldest.next().value as Key);
    },
    delete: (key: Key) => void values.delete(key),
  };
}
