/** Answers kept as bytes, for as long as the store is the one they were read from. */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

/** A 200 to GET, ready to send. */
export interface Rendered {
  body: Buffer;
  etag: string;
  /** Names and values in turn, ETag among them; those that tell of the body are not. */
  headers: string[];
  /** Content-Type and Content-Length, which a 304 goes without. */
  bodyHeaders: string[];
}

export interface CacheUse {
  hits: number;
  misses: number;
}

export interface RenderedCache {
  /** How often an answer was kept, and was not, since the start. */
  use(): CacheUse;
  /** The answer under `key` in the store's present version: kept from the second time on that it is asked for. */
  get(key: string, render: () => Promise<Rendered>): Promise<Rendered> | Rendered;
}

const maxBytes = 16 * 1024 * 1024;

/** What an entry costs beside its body: the key, the headers and the cache's own lists. */
const entryBytes = 1000;

const maxAsked = 10_000;

interface Kind {
  link?: string;
  type?: string;
}

/** Renders a text, or what is one already as bytes. No shared cache may keep it, and none use it without asking (RFC 9111, section 5.2.2). */
export function render(content: string | Buffer, { link, type = 'application/json' }: Kind = {}): Rendered {
  const body = typeof content === 'string' ? Buffer.from(content) : content;
  // A strong validator: equal bytes, and only those, have an equal one (RFC 9110, section 8.8.3).
  const etag = `"${hash('sha256', body, 'base64url').slice(0, 27)}"`;
  const headers = ['etag', etag, 'cache-control', 'private, no-cache', 'vary', 'Authorization'];
  if (link !== undefined) headers.push('link', link);
  return { body, etag, headers, bodyHeaders: ['content-type', type, 'content-length', String(body.length)] };
}

/**
 * `version` changes with every write to the store, by whichever process. It is read before the store is, so that an answer may be
 * newer than the version it is kept under but never older. Without it nothing is kept.
 */
export function createRenderedCache(version: (() => number) | undefined): RenderedCache {
  const kept = new LRUCache<string, Rendered>({
    maxSize: maxBytes,
    sizeCalculation: ({ body }) => body.length + entryBytes,
  });
  /** What was asked for once: to keep all of many that are never asked for again would cost more than it saves. */
  const asked = new Set<string>();
  let current: number | undefined;
  let hits = 0;
  let misses = 0;

  async function renew(key: string, read: number, render: () => Promise<Rendered>): Promise<Rendered> {
    const rendered = await render();
    // Another request may have found a newer version meanwhile, and emptied the cache for it.
    if (read !== current) return rendered;
    if (asked.has(key)) kept.set(key, rendered);
    else {
      if (asked.size >= maxAsked) asked.clear();
      asked.add(key);
    }
    return rendered;
  }

  return {
    use: () => ({ hits, misses }),
    get(key, render) {
      if (!version) {
        misses += 1;
        return render();
      }
      const read = version();
      if (read !== current) {
        kept.clear();
        asked.clear();
        current = read;
      }
      const found = kept.get(key);
      if (found) {
        hits += 1;
        return found;
      }
      misses += 1;
      return renew(key, read, render);
    },
  };
}
