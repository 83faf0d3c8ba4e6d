/** One request of a socket at a time: a client that sends many and reads none must not fill the memory. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

type Call = [request: IncomingMessage, response: ServerResponse];

/**
 * Holds back the requests that a client sends before it has its answers (RFC 9112, section 9.3.2, lets a server work on them side by
 * side, but answer in turn): answers wait in memory for those before them, and a hundred large pages are a gigabyte.
 */
export function serveInTurn(server: Server): void {
  /** What waits behind the request that a socket is busy with. One packet may bring hundreds, and Node hands over all of them. */
  const lines = new WeakMap<Duplex, Call[]>();
  const [handle] = server.listeners('request') as [RequestListener];
  server.removeAllListeners('request');

  function take(line: Call[], [request, response]: Call): void {
    const { socket } = request;
    response.once('close', () => {
      const next = socket.destroyed ? undefined : line.shift();
      if (next) return take(line, next);
      lines.delete(socket);
      socket.resume();
    });
    handle(request, response);
  }

  server.on('request', (...call: Call) => {
    const [{ socket }] = call;
    const line = lines.get(socket);
    if (line) {
      line.push(call);
      socket.pause();
    } else {
      const empty: Call[] = [];
      lines.set(socket, empty);
      take(empty, call);
    }
  });
}
