/** Adds pets to a server under strace, kills it, and returns its system calls and its files. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from './app.ts';
import { openClient, type Promises, sideBySide } from './client.ts';
import { type DiskEvent, readTrace } from './disk-trace.ts';
import { firstAnswer } from './known-port.ts';
import { startServer } from './process.ts';
import { makeStore } from './store-file.ts';
import { tracing } from './strace.ts';

interface Load {
  animals: number;
  /** Requests in flight at once. */
  connections: number;
  /** Folder of a copy with a planted bug. */
  source?: string | undefined;
}

export interface TracedLoad {
  folder: string;
  /** The store's file before the server started. */
  base: Buffer;
  events: DiskEvent[];
  promises: Promises;
}

export async function traceLoad({ animals, connections, source }: Load): Promise<TracedLoad> {
  const { folder, file, key, env } = await makeStore();
  const base = readFileSync(file);
  const log = path.join(temporaryFolder(), 'trace');
  const server = await startServer({ env, under: tracing(log), ...(source && { source }) });
  const promises: Promises = new Map();
  const client = openClient(server.url, key, connections, promises);
  await firstAnswer(server, client);
  let next = 0;
  await sideBySide(connections, async () => {
    while (next < animals) {
      const name = `animal-${++next}.`;
      // On a busy machine, strace slows the server down so much that it responds 503.
      while ((await client.add(name)).status === 503);
      if (!promises.has(name)) throw new Error(`${name} was not added`);
    }
  });
  await server.end('SIGKILL');
  return { folder, base, events: readTrace(log, folder), promises };
}
