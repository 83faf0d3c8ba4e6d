/** A server whose port is known before it starts: it can be asked from its first moment on, silent or started anew. */
import { createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import type { Client } from './client.ts';
import type { Process } from './process.ts';

/** A free port that no one is given by chance: those are from 32768 on (ip(7), ip_local_port_range). */
export async function findPort(): Promise<number> {
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const free = await new Promise((resolve) => {
    const probe = createServer().once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
  return free ? port : findPort();
}

/** Resolves when the server serves; rejects where it ends before. One that was held up in its start sheds load at first. */
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
