/** Reading the Link header as a client does. */
import type { JsonAnswer, TestApp } from './app.ts';

/** rel → address. */
export function links(header: string | string[] | undefined): Record<string, string> {
  const found = String(header).matchAll(/<([^>]*)>; rel="([^"]*)"/g);
  return Object.fromEntries([...found].map(([, address, rel]) => [rel, address]));
}

/** All pages from `path` on, each reached through the Link of the one before; `between` runs after each. */
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
