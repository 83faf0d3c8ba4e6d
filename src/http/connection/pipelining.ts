/** One request of a connection at a time: a client that sends many and reads none must not fill the memory. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { createShares } from '../shares.ts';

/** Requests that may wait on all connections together, at some 2 KB each. */
const maxWaiting = 8192;

type Call = [request: IncomingMessage, response: ServerResponse];

interface Line {
  waiting: Call[];
  /** Whether the response before them calls the first one when it closes. */
  followed: boolean;
}

/** What waits behind the request that a connection is busy with. One packet may bring hundreds, and Node hands over all of them. */
const line = Symbol('line');
interface Connection extends Socket {
  [line]?: Line;
  /** Node's own: the response whose turn it is, as responses leave in the order of their requests. */
  _httpMessage?: ServerResponse | null;
}

/**
 * Holds back the requests that a client sends before it has its responses (RFC 9112, section 9.3.2, lets a server work on them side by
 * side, but answer in turn): responses wait in memory for those before them, and a hundred large pages are a gigabyte. A request that
 * has no other before it costs nothing here. `onTurn` is called before the first request that a new poll of the kernel brings after queued
 * ones: those run after the poll before it. Returns how many wait.
 */
export function servePipelined(server: Server, onTurn: () => void): () => number {
  const [handle] = server.listeners('request') as [RequestListener];
  server.removeAllListeners('request');
  const places = createShares<Socket>(maxWaiting);
  let queuedRan = false;

  function handleNext(socket: Connection, own: Line): void {
    const { waiting } = own;
    if (socket.destroyed) {
      places.give(socket, waiting.splice(0).length);
      return;
    }
    places.give(socket);
    const [request, response] = waiting.shift() as Call;
    follow(socket, own, response);
    // Refused meanwhile, as its body could not be parsed (client-errors.ts).
    /* v8 ignore next -- only where that could not be written at once */
    if (response.headersSent) return;
    queuedRan = true;
    handle(request, response);
  }

  /** In a turn of its own: what one connection has waiting may be seconds of work. */
  function follow(socket: Connection, own: Line, before: ServerResponse): void {
    own.followed = true;
    before.once('close', () => {
      if (own.waiting.length > 0) return setImmediate(handleNext, socket, own);
      own.followed = false;
      if (socket.isPaused()) socket.resume();
    });
  }

  function lineOf(socket: Connection): Line {
    if (!socket[line]) {
      const own: Line = { waiting: [], followed: false };
      socket[line] = own;
      // Node resumes a socket after each response, to be rid of the request's body. Keep paused while requests are queued.
      socket.on('resume', () => {
        if (own.waiting.length > 0) socket.pause();
      });
    }
    return socket[line];
  }

  function enqueue(socket: Connection, call: Call): void {
    const own = lineOf(socket);
    // A reset: the kernel would go on offering the megabytes of responses that it holds.
    if (!places.take(socket)) return void socket.resetAndDestroy();
    own.waiting.push(call);
    socket.pause();
    if (!own.followed) follow(socket, own, socket._httpMessage as ServerResponse);
  }

  server.on('request', (request, response) => {
    // Node assigns a response its socket when those before it have left.
    if (response.socket === null) return enqueue(request.socket, [request, response]);
    if (queuedRan) {
      queuedRan = false;
      onTurn();
    }
    handle(request, response);
  });
  return places.taken;
}
