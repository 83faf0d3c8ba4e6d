/** A map that keeps what was used recently. */
import { LRUCache } from 'lru-cache';

/**
 * A map of at most `max` entries. Beyond that, the one that was used longest ago is forgotten. With the package's own `max`, its lists would be
 * allocated when it is created: 30 ms for the maps of a server.
 */
export const createRecent = <Key extends string | number, Value extends object>(max: number) =>
  new LRUCache<Key, Value>({ maxSize: max, sizeCalculation: () => 1 });
