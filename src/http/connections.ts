/** Follows each connection: its requests without a response, and when it must close. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import { limits } from '../core/limits.ts';
import { HttpError, sendError } from './errors.ts';
import { type Client, clientAt, clientBehind, inNetworks, plainAddress } from './networks.ts';

interface Unanswered {
  readonly reply: FastifyReply;
  /** Serves the request. Undefined before `inOrder`, and after its call. */
  serve?: (() => void) | undefined;
}

interface Connection {
  readonly client: Client;
  /** Requests without a response. The newest is last. */
  readonly unanswered: Unanswered[];
  /** How many requests were read beyond that, which get no response. */
  ignored: number;
  /** The request that was read last. */
  last: IncomingMessage | undefined;
  /** Whether its parser has reported an error: it does so again for each packet that follows. */
  isFaulty: boolean;
}

const connections = new WeakMap<object, Connection>();

export function connectionOf(socket: Socket): Connection {
  let connection = connections.get(socket);
  if (!connection) {
    const client = clientAt(plainAddress(socket.remoteAddress));
    connection = { client, unanswered: [], ignored: 0, last: undefined, isFaulty: false };
    connections.set(socket, connection);
  }
  return connection;
}

/** How long a connection stays open after its last response, so that its client can read it (RFC 9112, section 9.6). */
const lingerMs = 500;

/** Closes a connection on which its client still sends. Closed at once, the kernel would reset it, and the client could lose the response. */
export function closeSoon(socket: Socket): void {
  socket.end();
  const cut = setTimeout(() => socket.destroy(), lingerMs).unref();
  socket.once('close', () => clearTimeout(cut));
}

/** Whether the headers announce a body: neither a length of 0, however it is written, nor none without a transfer coding (RFC 9112, section 6.3). */
export const hasBody = (headers: IncomingHttpHeaders) =>
  Number(headers['content-length']) > 0 || headers['transfer-encoding'] !== undefined;

/** After this many bytes of an unwanted body, its connection is no longer read. */
const maxDiscardedBytes = 16 * 1024;

/** Closes the connection unless the rest of the body has arrived. Node would read until the request times out, which delays others. */
function discardBody(request: IncomingMessage): void {
  const { socket } = request;
  const start = socket.bytesRead;
  const stop = () => {
    if (socket.bytesRead - start > maxDiscardedBytes) socket.pause();
  };
  request.on('data', stop).resume();
  // One turn reads what has arrived, and the next one parses the rest of it.
  setImmediate(() =>
    setImmediate(() => {
      request.off('data', stop);
      if (request.complete || socket.destroyed) return;
      socket.pause();
      closeSoon(socket);
    }),
  );
}

const late = new HttpError('service_unavailable', { 'retry-after': '1', connection: 'close' });

/** Neither side of the connection has sent anything for `limits.silenceMs`: it is idle, the store hangs, or the client reads nothing. */
function onTimeout(socket: Socket): void {
  const [first] = connectionOf(socket).unanswered;
  if (!first) socket.destroy();
  // After a normal close, the kernel would keep trying to send what the client does not read.
  else if (first.reply.raw.headersSent) socket.resetAndDestroy();
  else sendError(late, first.reply.request, first.reply);
}

/** Whether a request is served. Resets the connection if it has too many requests that are not answered. */
export function acceptRequest({ socket }: IncomingMessage): boolean {
  const connection = connectionOf(socket);
  const { unanswered } = connection;
  // Node also passes on requests that follow a reset, or a request whose response closes the connection (RFC 9112, section 9.6).
  const isOver = !socket.writable || unanswered.at(-1)?.reply.raw.shouldKeepAlive === false;
  if (!isOver && unanswered.length < limits.pipelined) return true;
  connection.ignored += 1;
  // Node would go on reading, and keep each request until the connection closes.
  if (unanswered.length + connection.ignored > limits.pipelined && !socket.destroyed) socket.resetAndDestroy();
  return false;
}

/**
 * A hook that lets a request wait until those before it on its connection are answered. Otherwise a client that reads nothing makes the server build
 * `limits.pipelined` responses, and creates would run at the same time (RFC 9112, section 9.3.2, allows it for safe methods only).
 */
export const inOrder: onRequestHookHandler = (request, reply, done) => {
  const { unanswered } = connectionOf(request.raw.socket);
  const own = unanswered.find((each) => each.reply === reply);
  // The connection may have closed.
  if (own && own !== unanswered[0]) own.serve = done;
  else done();
};

/**
 * Sets the time-out for a response that begins now. Half: Node counts a write queue that has become shorter as activity, so a response that nobody reads is
 * cut off after twice the time-out.
 */
export const expectReader = (socket: Socket) => socket.setTimeout(limits.silenceMs / 2);

type End = (request: FastifyRequest, reply: FastifyReply) => void;

declare module 'fastify' {
  interface FastifyInstance {
    /** Adds what is done once for each request, when its response has been handed to the kernel or its connection has closed. */
    atEnd: (end: End) => void;
  }
  interface FastifyRequest {
    /** The client: that which a trusted proxy names. */
    client: Client;
  }
}

/** Follows connections and their requests. */
export const watchConnections = fp(async (app: FastifyInstance) => {
  const { server, metrics, config } = app;
  const isProxy = config.trustProxy && inNetworks(config.trustProxy);
  const ends: End[] = [];
  let open = 0;

  function endRequest({ reply }: Unanswered): void {
    for (const end of ends) end(reply.request, reply);
  }

  app.decorate('atEnd', (end) => void ends.push(end));
  app.decorateRequest('client', null as unknown as Client);
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request;
    const connection = connectionOf(raw.socket);
    connection.unanswered.push({ reply });
    connection.last = raw;
    request.client = isProxy ? clientBehind(raw, connection.client, isProxy) : connection.client;
    done();
  });
  app.addHook('onSend', (request, _reply, _payload, done) => {
    expectReader(request.raw.socket);
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const { unanswered } = connectionOf(request.raw.socket);
    // A response may still finish when its connection has closed.
    if (unanswered[0]?.reply === reply) endRequest(unanswered.shift() as Unanswered);
    if (!request.raw.complete) discardBody(request.raw);
    done();
    const [next] = unanswered;
    // Behind a response that closes the connection, nothing is served (RFC 9112, section 9.6).
    // Node stops reading while many responses wait, and so does not notice that the client is gone.
    if (!next) request.raw.socket.resume();
    if (!next || !reply.raw.shouldKeepAlive) return;
    request.raw.socket.setTimeout(limits.silenceMs);
    // Its body may have been refused.
    if (!next.reply.sent) next.serve?.();
    next.serve = undefined;
  });
  server.on('connection', (socket) => {
    if (open >= config.maxConnections) {
      metrics.limited('connections');
      // Makes room: a client opens an idle connection again at no cost.
      server.closeIdleConnections();
      return void socket.destroy();
    }
    open += 1;
    socket.once('close', () => {
      open -= 1;
      connectionOf(socket).unanswered.splice(0).forEach(endRequest);
    });
  });
  metrics.add('animal_store_connections', 'Open connections.', () => open);
  server.on('timeout', onTimeout);
});
