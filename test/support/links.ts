/** Parses and follows the Link header, as a client does. */
import type { JsonAnswer, TestApp } from './app.ts';
import type { Server } from './process.ts';

/** rel → URL. */
export function links(header: string | string[] | undefined): Record<string, string> {
  const found = String(header).matchAll(/<([^>]*)>; rel="([^"]*)"/g);
  return Object.fromEntries([...found].map(([, address, rel]) => [rel, address]));
}

/** All pages from `path`, each found through the Link header of the previous one; `between` runs after each page. */
export async function follow(app: TestApp, path: string, between?: () => Promise<unknown>): Promise<JsonAnswer[]> {
  const pages: JsonAnswer[] = [];
  for (let next: string | undefined = path; next !== undefined; ) {
    const page = await app.call('GET', next);
    pages.push(page);
    next = links(page.headers.link).next;
    await between?.();
  }
  return pages;
}

/** Walks all pages of a server in a process; returns the ids and the cursors. */
export async function walk(server: Server, key: string, limit = 100) {
  const ids: string[] = [];
  const cursors: string[] = [];
  for (let next: string | undefined = `/v1/pets?limit=${limit}`; next !== undefined; ) {
    const { json, headers } = await server.call(key, 'GET', next);
    ids.push(...json.map(({ id }: { id: number }) => String(id)));
    next = links(headers.get('link') ?? undefined).next;
    if (next) cursors.push(new URL(next, server.url).searchParams.get('cursor') as string);
  }
  return { ids, cursors };
}
