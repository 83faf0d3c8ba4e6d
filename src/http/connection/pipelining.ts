/** Handles one request per connection at a time, so that a client that sends many and reads none cannot exhaust the memory. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { limits } from '../../core/limits.ts';
import { type Claimant, createSeparatePlaces } from '../../core/places.ts';

interface Call extends Claimant {
  request: IncomingMessage;
  response: ServerResponse;
}

interface Queue {
  calls: Call[];
  /** Whether the first call will run when the current response closes. */
  scheduled: boolean;
}

/** The queued requests of a connection. One packet may contain hundreds, and Node emits all of them at once. */
const queueKey = Symbol('queue');
interface Connection extends Socket {
  [queueKey]?: Queue;
  /** Node's own: the response being written now. Responses are sent in the order of their requests. */
  _httpMessage?: ServerResponse | null;
}

/**
 * Queues pipelined requests: those that a client sends before it has received the responses to earlier ones. RFC 9112, section 9.3.2, allows
 * a server to handle them in parallel, but their responses must be sent in order. Finished responses would wait in memory, and a hundred
 * large pages take a gigabyte. A request that is not pipelined costs nothing here.
 *
 * Queued requests run after the poll phase of the event loop. `onTurn` is called before the first request of the next poll, so that it does
 * not share their snapshot of the store. Returns a function that counts the queued requests.
 */
export function servePipelined(
  server: Server,
  claimantOf: (socket: Socket) => Claimant,
  onTurn: () => void,
): () => number {
  const [handle] = server.listeners('request') as [RequestListener];
  server.removeAllListeners('request');
  // At about 2 KB each.
  const places = createSeparatePlaces(limits.pipelined);
  let queuedRan = false;

  function handleNext(socket: Connection, queue: Queue): void {
    const { calls } = queue;
    if (socket.destroyed) return;
    const call = calls.shift() as Call;
    places.give(call);
    const { request, response } = call;
    scheduleNext(socket, queue, response);
    // client-errors.ts has already rejected this request, because its body could not be parsed.
    if (response.headersSent) return;
    queuedRan = true;
    handle(request, response);
  }

  /** Each queued request runs in its own turn of the event loop: the queue of one connection may be seconds of work. */
  function scheduleNext(socket: Connection, queue: Queue, current: ServerResponse): void {
    queue.scheduled = true;
    current.once('close', () => {
      if (queue.calls.length > 0) return setImmediate(handleNext, socket, queue);
      queue.scheduled = false;
      if (socket.isPaused()) socket.resume();
    });
  }

  function queueOf(socket: Connection): Queue {
    if (!socket[queueKey]) {
      const queue: Queue = { calls: [], scheduled: false };
      socket[queueKey] = queue;
      // Node resumes the socket after each response, to discard the rest of the request body. Keep it paused while requests are queued.
      socket.on('resume', () => {
        if (queue.calls.length > 0) socket.pause();
      });
      socket.once('close', () => {
        for (const call of queue.calls.splice(0)) places.give(call);
      });
    }
    return socket[queueKey];
  }

  function enqueue(socket: Connection, request: IncomingMessage, response: ServerResponse): void {
    const queue = queueOf(socket);
    const { holder, stranger } = claimantOf(socket);
    const call = { request, response, holder, stranger };
    // Reset the connection: after a normal close, the kernel would keep trying to send its buffered megabytes of responses.
    if (!places.take(call)) return void socket.resetAndDestroy();
    queue.calls.push(call);
    socket.pause();
    if (!queue.scheduled) scheduleNext(socket, queue, socket._httpMessage as ServerResponse);
  }

  server.on('request', (request, response) => {
    // Node assigns the socket to a response only after the responses before it have been sent.
    if (response.socket === null) return enqueue(request.socket, request, response);
    if (queuedRan) {
      queuedRan = false;
      onTurn();
    }
    handle(request, response);
  });
  return places.taken;
}
