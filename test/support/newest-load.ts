/** Clients of several servers on one store, which know the newest animal that any of them has seen acknowledged. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import type { Server } from './process.ts';

export interface Reply {
  server: number;
  kind: 'create' | 'read';
  begun: number;
  ended: number;
  /** 0: no response. */
  status: number;
  retryAfter: string | null;
}

interface Acknowledged {
  name: string;
  id: number;
}

export interface Creators {
  /** Clients of each server that retry until 201, with an Idempotency-Key. */
  retry?: number;
  /** Clients of each server that send each name once, without a key: a server that repeated a lost create would add two. */
  once?: number;
  /** Clients of each server that read, half of them with a list. */
  readers?: number;
}

/** Clients of all servers: some create; others read the newest animal that any of them has seen acknowledged. */
export function startLoad(servers: Server[], key: string, { retry = 2, once = 0, readers = 2 }: Creators = {}) {
  const replies: Reply[] = [];
  const acknowledged: Acknowledged[] = [];
  /** The reads that did not know an animal whose 201 had arrived before they were sent. */
  const stale: Reply[] = [];
  /** The replies that gave an id another name than one before. */
  const renamed: Reply[] = [];
  const nameOf = new Map<number, string>();
  let newest = 0;
  let stopped = false;

  async function send(server: number, kind: Reply['kind'], path: string, init: RequestInit = {}) {
    const begun = performance.now();
    const headers = { authorization: `Bearer ${key}`, ...(init.headers as Record<string, string>) };
    const signal = AbortSignal.timeout(20_000);
    const request = fetch(`${servers[server]?.url}/v1/pets${path}`, { ...init, headers, signal });
    const response = await request.catch(() => {});
    const text = await response?.text().catch(() => {});
    const status = text === undefined ? 0 : (response?.status as number);
    const retryAfter = response?.headers.get('retry-after') ?? null;
    const seen: Reply = { server, kind, begun, ended: performance.now(), status, retryAfter };
    replies.push(seen);
    if (status >= 500 || status === 0) await sleep(20);
    const json = status === 200 || status === 201 ? JSON.parse(text as string) : undefined;
    for (const { id, name } of [json ?? []].flat() as Acknowledged[]) {
      if ((nameOf.get(id) ?? name) !== name) renamed.push(seen);
      nameOf.set(id, name);
    }
    return { status, json, seen };
  }

  async function create(server: number, retries: boolean) {
    while (!stopped) {
      const name = randomUUID();
      const headers = { 'content-type': 'application/json', ...(retries && { 'idempotency-key': name }) };
      const body = JSON.stringify({ name, categoryId: 1 });
      for (;;) {
        const { status, json } = await send(server, 'create', '', { method: 'POST', headers, body });
        if (status === 201) {
          acknowledged.push({ name, id: json.id });
          newest = Math.max(newest, json.id);
        }
        if (status === 201 || !retries || stopped) break;
      }
      await sleep(10);
    }
  }

  async function read(server: number, byList: boolean) {
    while (!stopped) {
      const known = newest;
      if (known > 0) {
        const cursor = Buffer.from(`after:${known - 1}`).toString('base64url');
        // Also the next one, which nobody may have seen acknowledged.
        const path = byList && known > 1 ? `?limit=2&cursor=${cursor}` : `/${known}`;
        const { status, json, seen } = await send(server, 'read', path);
        if (status === 404 || (status === 200 && [json].flat()[0]?.id !== known)) stale.push(seen);
      }
      await sleep(10);
    }
  }

  const running = servers.flatMap((_, server) => [
    ...Array.from(Array(retry + once), (_, index) => create(server, index < retry)),
    ...Array.from(Array(readers), (_, index) => read(server, index % 2 === 1)),
  ]);
  return {
    replies,
    acknowledged,
    stale,
    renamed,
    async stop() {
      stopped = true;
      await Promise.all(running);
    },
  };
}

/** The acknowledged animals that a database does not have with their id, the names that it has twice, and the ids that two animals were given. */
export async function compare(databaseUrl: string, acknowledged: Acknowledged[]) {
  const sql = postgres(databaseUrl, { max: 1, fetch_types: false });
  const rows = await sql<Acknowledged[]>`SELECT id::float8 AS id, name FROM pet`;
  await sql.end();
  const nameOf = new Map(rows.map(({ id, name }) => [id, name]));
  return {
    lost: acknowledged.filter(({ id, name }) => nameOf.get(id) !== name).length,
    duplicated: rows.length - new Set(rows.map(({ name }) => name)).size,
    idsTwice: acknowledged.length - new Set(acknowledged.map(({ id }) => id)).size,
  };
}

export const nothing = { lost: 0, duplicated: 0, idsTwice: 0 };

/** Most connections of a server to a database: those of its pool, and 2 that end. */
export const maxBackends = 10 + 2;
