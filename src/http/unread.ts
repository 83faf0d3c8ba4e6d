/** Answers that a client does not read: each is given up after a while, and large ones are bounded together. */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Failure } from '../errors.ts';

const sweepMs = 500;

/**
 * Node looks at the socket after so long, and goes on for as long again where the kernel has taken a part of the answer since, as it
 * does at once of a large one: a client that takes nothing is cut off after 4 to 8.5 seconds, one that takes a little is not.
 */
const stallMs = 4000;

/** Smaller answers fit into the kernel's buffers, or nearly. */
const largeBytes = 64 * 1024;
const maxLargeBytes = 32 * 1024 * 1024;

/**
 * Closes each socket whose client takes nothing of its answer. Not by `server.timeout`, which would also count the time that the
 * store takes to answer, and set a timer for every request.
 */
export function cutOffNonReaders(server: Server): void {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  const sweep = setInterval(() => {
    for (const socket of sockets) {
      const unread = socket.writableLength > 0;
      if (unread && !socket.timeout) socket.setTimeout(stallMs);
      else if (!unread && socket.timeout === stallMs) socket.setTimeout(0);
    }
  }, sweepMs).unref();
  server.once('close', () => clearInterval(sweep));

  server.on('timeout', (socket) => {
    // A reset: the kernel would go on offering the megabytes that it holds, for minutes.
    if (socket.timeout === stallMs) socket.resetAndDestroy();
    // Idle for all of keepAliveTimeout, which Node leaves to us once we listen.
    else socket.destroy();
  });
}

/** How many answers on their way share a body: of a page that is kept in memory, all that carry it. */
const sharers = new Map<Buffer, number>();
let heldBytes = 0;

/** Lets `body` be sent. Throws Failure `service_unavailable` where clients hold too much that they have not read. */
export function admit(body: Buffer, response: ServerResponse): void {
  if (body.length < largeBytes) return;
  const sharing = sharers.get(body) ?? 0;
  if (sharing === 0) {
    if (heldBytes + body.length > maxLargeBytes)
      throw new Failure('service_unavailable', undefined, { headers: { 'retry-after': '1' } });
    heldBytes += body.length;
  }
  sharers.set(body, sharing + 1);
  response.once('close', () => release(body));
}

function release(body: Buffer): void {
  const sharing = (sharers.get(body) as number) - 1;
  if (sharing > 0) sharers.set(body, sharing);
  else {
    sharers.delete(body);
    heldBytes -= body.length;
  }
}
