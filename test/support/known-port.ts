/** A server whose port is known before it starts: it can be asked from its first moment on, silent or started anew. */
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import type { Client } from './client.ts';
import type { Process } from './process.ts';

/** Puts a server before all else on the machine, where that is allowed: what is timed is its own doing. */
export const undisturbed = spawnSync('chrt', ['-f', '1', 'true']).status === 0 ? ['chrt', '-f', '1'] : [];

/** A free port that no one is given by chance: those are from 32768 on (ip(7), ip_local_port_range). */
export async function findPort(): Promise<number> {
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const free = await new Promise((resolve) => {
    const probe = createServer().once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
  return free ? port : findPort();
}

/** Resolves when the server gives a first answer; rejects where it ends before. */
export async function firstAnswer({ end }: Process, { get }: Client): Promise<void> {
  let ended: string | undefined;
  void end().then(({ code, stderr }) => {
    ended = `exit ${code} before the first answer\n${stderr}`;
  });
  while ((await get('/v1/pets?limit=1')).status !== 200) {
    if (ended) throw new Error(ended);
    await setTimeout(10);
  }
}
