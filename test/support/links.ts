/** Parses and follows the Link header, as a client does. */
import type { JsonAnswer, TestApp } from './app.ts';
import type { Server } from './process.ts';

/** rel → URL. */
export function links(header: string | string[] | undefined): Record<string, string> {
  const found = String(header).matchAll(/<([^>]*)>; rel="([^"]*)"/g);
  return Object.fromEntries([...found].map(([, address, rel]) => [rel, address]));
}

/** All pages from `path`, each found through the Link header of the previous one; `between` runs after each page. */
export async function follow(app: TestApp, path: string, between?: () => Promise<unknown>) {
  const pages: JsonAnswer[] = [];
  for (let next: string | undefined = path; next !== undefined; ) {
    const page = await app.call('GET', next);
    pages.push(page);
    next = links(page.headers.link).next;
    await between?.();
  }
  return pages;
}

/** Walks all pages of a server in a process; returns the ids and names of the pets, and the cursors. */
export async function walk(server: Server, key: string, limit = 100) {
  const ids: string[] = [];
  const names: string[] = [];
  const cursors: string[] = [];
  for (let next: string | undefined = `/v1/pets?limit=${limit}`; next !== undefined; ) {
    const { json, headers } = await server.call(key, 'GET', next);
    for (const { id, name } of json) {
      ids.push(String(id));
      names.push(name);
    }
    const address = links(headers.get('link') ?? undefined).next;
    const { pathname, search, searchParams } = new URL(address ?? '', server.url);
    next = address && pathname + search;
    if (next) cursors.push(searchParams.get('cursor') as string);
  }
  return { ids, names, cursors };
}
