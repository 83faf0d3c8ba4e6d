/** Many clients at little CPU cost. Each has one connection, and sends its next request after the response and its Retry-After. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { readAnswer } from './raw.ts';

export interface Outcome {
  status: number;
  /** Seconds; undefined if the response has no Retry-After. */
  retryAfter: number | undefined;
  /** From the request to the last byte of the response. */
  ms: number;
}

interface Load {
  port: number;
  clients: number;
  seconds: number;
  /** The bytes of the next request. */
  next: () => string;
}

async function ask(socket: Socket, request: string): Promise<Outcome> {
  const begun = performance.now();
  socket.write(request);
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0);
    const look = (part: Buffer) => {
      bytes = bytes.length === 0 ? part : Buffer.concat([bytes, part]);
      const { status, headers } = readAnswer(bytes)?.answer ?? {};
      if (status === undefined || !headers) return;
      socket.off('data', look).off('close', reject);
      const { 'retry-after': again } = headers;
      resolve({ status, retryAfter: again === undefined ? undefined : Number(again), ms: performance.now() - begun });
    };
    socket.on('data', look).once('close', reject);
  });
}

/** Resolves to all outcomes after `seconds`. Rejects if a connection is refused or closed. */
export async function loadWith({ port, clients, seconds, next }: Load): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const sockets: Socket[] = [];
  while (sockets.length < clients) {
    // Few enough for any listen backlog.
    const few = Array.from({ length: Math.min(100, clients - sockets.length) }, () => connect(port, '127.0.0.1'));
    await Promise.all(few.map((socket) => once(socket, 'connect')));
    sockets.push(...few);
  }
  const end = performance.now() + seconds * 1000;
  const work = sockets.map(async (socket) => {
    while (performance.now() < end) {
      const outcome = await ask(socket, next());
      outcomes.push(outcome);
      if (outcome.retryAfter) await sleep(outcome.retryAfter * 1000);
    }
    socket.destroy();
  });
  await Promise.all(work);
  return outcomes;
}
