/** One request of a socket at a time: a client that sends many and reads none must not fill the memory. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Requests that may wait on all sockets together, at some 2 KB each. */
const maxWaiting = 8192;

/** So many may wait on a socket in any case: more than clients that pipeline send. */
const fairShare = 128;

type Call = [request: IncomingMessage, response: ServerResponse];

/** What waits behind the request that a socket is busy with. One packet may bring hundreds, and Node hands over all of them. */
const line = Symbol('line');
type Connection = Socket & { [line]?: Call[] | undefined };

/**
 * Holds back the requests that a client sends before it has its answers (RFC 9112, section 9.3.2, lets a server work on them side by
 * side, but answer in turn): answers wait in memory for those before them, and a hundred large pages are a gigabyte.
 */
export function serveInTurn(server: Server): void {
  const [handle] = server.listeners('request') as [RequestListener];
  server.removeAllListeners('request');
  let allWaiting = 0;

  // Node resumes a socket after each answer, to be rid of the request's body: a packet more would join the line every time.
  server.on('connection', (socket: Connection) => {
    socket.on('resume', () => {
      if (socket[line]?.length) socket.pause();
    });
  });

  function take(socket: Connection, waiting: Call[], [request, response]: Call): void {
    response.once('close', () => {
      // Others come in between: what one socket has waiting may be seconds of work.
      if (waiting.length > 0) return setImmediate(takeNext, socket, waiting);
      socket[line] = undefined;
      if (socket.isPaused()) socket.resume();
    });
    handle(request, response);
  }

  function takeNext(socket: Connection, waiting: Call[]): void {
    if (socket.destroyed) {
      allWaiting -= waiting.length;
      waiting.length = 0;
    } else {
      allWaiting -= 1;
      take(socket, waiting, waiting.shift() as Call);
    }
  }

  server.on('request', (...call: Call) => {
    const socket: Connection = call[0].socket;
    const waiting = socket[line];
    if (waiting) {
      waiting.push(call);
      allWaiting += 1;
      // A reset: the kernel would go on offering the megabytes of answers that it holds.
      if (allWaiting > maxWaiting && waiting.length > fairShare) socket.resetAndDestroy();
      else socket.pause();
    } else {
      socket[line] = [];
      take(socket, socket[line], call);
    }
  });
}
