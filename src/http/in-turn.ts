/** One request of a socket at a time: a client that sends many and reads none must not fill the memory. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

type Call = [request: IncomingMessage, response: ServerResponse];

/** What waits behind the request that a socket is busy with. One packet may bring hundreds, and Node hands over all of them. */
const line = Symbol('line');
type Socket = Duplex & { [line]?: Call[] | undefined };

/**
 * Holds back the requests that a client sends before it has its answers (RFC 9112, section 9.3.2, lets a server work on them side by
 * side, but answer in turn): answers wait in memory for those before them, and a hundred large pages are a gigabyte.
 */
export function serveInTurn(server: Server): void {
  const [handle] = server.listeners('request') as [RequestListener];
  server.removeAllListeners('request');

  function take(socket: Socket, waiting: Call[], [request, response]: Call): void {
    response.once('close', () => {
      const next = socket.destroyed ? undefined : waiting.shift();
      if (next) return take(socket, waiting, next);
      socket[line] = undefined;
      if (socket.isPaused()) socket.resume();
    });
    handle(request, response);
  }

  server.on('request', (...call: Call) => {
    const socket: Socket = call[0].socket;
    const waiting = socket[line];
    if (waiting) {
      waiting.push(call);
      socket.pause();
    } else {
      socket[line] = [];
      take(socket, socket[line], call);
    }
  });
}
