/** Answers kept as bytes, for as long as the store is the one they were read from. */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

/** A 200 to GET, ready to send. */
export interface Rendered {
  body: Buffer;
  etag: string;
  link?: string | undefined;
}

export interface RenderedCache {
  /** The answer under `key` in the store's present version, rendered anew where it is not kept. */
  get(key: string, render: () => Promise<Rendered>): Promise<Rendered> | Rendered;
}

const maxBytes = 16 * 1024 * 1024;

/** What an entry costs beside its body: the key, the other fields and the cache's own lists. */
const entryBytes = 600;

/** A strong validator: equal bytes, and only those, have an equal one (RFC 9110, section 8.8.3). */
export function etagOf(body: Buffer): string {
  return `"${hash('sha256', body, 'base64url').slice(0, 27)}"`;
}

/**
 * `version` changes with every write to the store, by whichever process. It is read before the store is, so that an answer may be
 * newer than the version it is kept under but never older.
 */
export function createRenderedCache(version: () => number): RenderedCache {
  const kept = new LRUCache<string, Rendered>({
    maxSize: maxBytes,
    sizeCalculation: ({ body }) => body.length + entryBytes,
  });
  let current: number | undefined;

  async function renew(key: string, read: number, render: () => Promise<Rendered>): Promise<Rendered> {
    const rendered = await render();
    // Another request may have found a newer version meanwhile, and emptied the cache for it.
    if (read === current) kept.set(key, rendered);
    return rendered;
  }

  return {
    get(key, render) {
      const read = version();
      if (read !== current) {
        kept.clear();
        current = read;
      }
      return kept.get(key) ?? renew(key, read, render);
    },
  };
}
