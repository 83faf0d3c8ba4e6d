/** Chooses the port of a server before it starts, so that clients can send requests from the first moment and after a restart. */
import { createServer } from 'node:net';

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
