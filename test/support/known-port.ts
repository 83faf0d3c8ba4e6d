/** Chooses the port of a server before it starts, so that clients can send requests from the first moment and after a restart. */
import { createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import type { Client } from './client.ts';
import type { Process } from './process.ts';

/** Test files that run at the same time choose from different ports; 0 is for the process that starts them. */
const lane = Number(process.env.VITEST_POOL_ID ?? 0) % 4;

/** Ports that this process has chosen. It may want a second one before a server listens on the first. */
const chosen = new Set<number>();

/** A free port that the system assigns to nobody else: it assigns ports from 32768 (ip(7), ip_local_port_range). */
export async function findPort(): Promise<number> {
  const port = 20_000 + 2500 * lane + Math.floor(Math.random() * 2500);
  if (chosen.has(port)) return findPort();
  chosen.add(port);
  const free = await new Promise((resolve) => {
    const probe = createServer().once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
  return free ? port : findPort();
}

/** Resolves at the first 200; rejects if the process ends before. A server that started slowly may respond 503 at first. */
export async function firstAnswer({ end }: Process, { get }: Client) {
  let ended: string | undefined;
  void end().then(({ code, stderr }) => {
    ended = `exit ${code} before the first response\n${stderr}`;
  });
  while ((await get('/v1/pets?limit=1')).status !== 200) {
    if (ended) throw new Error(ended);
    await setTimeout(10);
  }
}
