/** Clients of several servers on one store, which know the newest animal that any of them has seen acknowledged. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Server } from './process.ts';

export interface Reply {
  server: number;
  kind: 'create' | 'read';
  begun: number;
  ended: number;
  /** 0: no response. */
  status: number;
}

/** Clients of all servers: some create, and retry until 201; others read the newest animal that any of them has seen acknowledged. */
export function startLoad(servers: Server[], key: string) {
  const replies: Reply[] = [];
  const acknowledged: string[] = [];
  const stale: string[] = [];
  let newest = 0;
  let stopped = false;

  async function send(server: number, kind: Reply['kind'], path: string, init: RequestInit = {}) {
    const begun = performance.now();
    const headers = { authorization: `Bearer ${key}`, ...(init.headers as Record<string, string>) };
    const signal = AbortSignal.timeout(20_000);
    const reply = await fetch(`${servers[server]?.url}/v1/pets${path}`, { ...init, headers, signal }).then(
      async (response) => ({ status: response.status, text: await response.text() }),
      () => ({ status: 0, text: '' }),
    );
    replies.push({ server, kind, begun, ended: performance.now(), status: reply.status });
    if (reply.status >= 500 || reply.status === 0) await sleep(20);
    return reply;
  }

  async function create(server: number): Promise<void> {
    while (!stopped) {
      const name = randomUUID();
      const headers = { 'content-type': 'application/json', 'idempotency-key': name };
      const body = JSON.stringify({ name, categoryId: 1 });
      for (;;) {
        const { status, text } = await send(server, 'create', '', { method: 'POST', headers, body });
        if (status === 201) {
          acknowledged.push(name);
          newest = Math.max(newest, JSON.parse(text).id);
          break;
        }
        if (stopped) return;
      }
      await sleep(10);
    }
  }

  async function read(server: number, byList: boolean): Promise<void> {
    while (!stopped) {
      const known = newest;
      if (known > 0) {
        const cursor = Buffer.from(`after:${known - 1}`).toString('base64url');
        const listed = byList && known > 1;
        const { status, text } = await send(server, 'read', listed ? `?limit=1&cursor=${cursor}` : `/${known}`);
        if (status === 404 || (status === 200 && (listed ? JSON.parse(text)[0]?.id : JSON.parse(text).id) !== known))
          stale.push(`server ${server} does not know ${known}`);
      }
      await sleep(10);
    }
  }

  const running = servers.flatMap((_, server) => [
    ...[0, 1].map(() => create(server)),
    ...[false, true].map((byList) => read(server, byList)),
  ]);
  return {
    replies,
    acknowledged,
    stale,
    async stop() {
      stopped = true;
      await Promise.all(running);
    },
  };
}

/** The longest time without a reply that `wanted` accepts, in a window. */
export function longestGap(replies: Reply[], wanted: (reply: Reply) => boolean, from: number, to: number): number {
  const times = replies
    .filter((reply) => wanted(reply) && reply.ended > from && reply.ended < to)
    .map(({ ended }) => ended);
  const points = [from, ...times.sort((a, b) => a - b), to];
  return Math.max(...points.slice(1).map((point, index) => point - (points[index] as number)));
}
