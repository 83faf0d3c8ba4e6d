/** Follows each connection: the request that it serves, and when it must close. */
import type { IncomingHttpHeaders, IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { nextTick } from 'node:process';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { overloaded, sendError } from './errors.ts';
import { type Client, clientAt, clientBehind, plainAddress } from './networks.ts';

interface Connection {
  readonly client: Client;
  /** The reply to the request that was read last. */
  last: FastifyReply | undefined;
  /** Whether nothing that its client still sends is read. */
  isEnding: boolean;
}

const connections = new WeakMap<object, Connection>();

export function connectionOf(socket: Socket): Connection {
  let connection = connections.get(socket);
  if (!connection) {
    connection = { client: clientAt(plainAddress(socket.remoteAddress)), last: undefined, isEnding: false };
    connections.set(socket, connection);
  }
  return connection;
}

/** The reply to the request that a connection serves. */
export const replyOn = (socket: Socket) => connectionOf(socket).last as FastifyReply;

/** Whether a response is not yet handed to the kernel as a whole. */
export const isOutstanding = (reply: FastifyReply | undefined): reply is FastifyReply =>
  reply !== undefined && !reply.raw.writableFinished && !reply.raw.destroyed;

/** How long a connection stays open after its last response, so that its client can read it (RFC 9112, section 9.6). */
const lingerMs = 500;

/** Closes a connection on which its client still sends. Closed at once, the kernel would reset it, and the client could lose the response. */
export function closeSoon(socket: Socket): void {
  if (!socket.writable) return;
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

/** Neither side of the connection has sent anything for the server's time-out: it is idle, the store hangs, or the client reads nothing. */
function onTimeout(socket: Socket): void {
  const { last } = connectionOf(socket);
  if (!isOutstanding(last)) socket.destroy();
  // After a normal close, the kernel would keep trying to send what the client does not read.
  else if (last.raw.headersSent) socket.resetAndDestroy();
  else sendError(overloaded, last.request, last);
}

/** A tick later: Node resumes the socket behind each request that it has parsed, and behind each response to discard what is left of a body. */
const stopReading = (socket: Socket) => nextTick(() => socket.pause());

/**
 * Ends the connection with the response that is outstanding, because its client has sent something else before it: served at once, it would make the server
 * build responses that nobody reads. A client repeats the requests that get no response (RFC 9112, section 9.3.2).
 */
export function endAfter({ request, raw }: FastifyReply): void {
  const { socket } = request.raw;
  const connection = connectionOf(socket);
  if (connection.isEnding) return;
  connection.isEnding = true;
  stopReading(socket);
  // In the headers, if they are not yet made.
  raw.shouldKeepAlive = false;
  // When it closes, Node makes an error for each request that it has read, of which a packet may have hundreds: without the stacks, half of their time.
  let stackTraceLimit: number;
  socket.prependOnceListener('close', () => {
    // Read here: a response may end while another connection closes, when the limit is 0.
    ({ stackTraceLimit } = Error);
    Error.stackTraceLimit = 0;
  });
  socket.once('close', () => {
    Error.stackTraceLimit = stackTraceLimit;
  });
  // Node would close the connection at once.
  socket.destroySoon = () => closeSoon(socket);
  raw.once('close', () => {
    stopReading(socket);
    closeSoon(socket);
  });
}

/** Whether the request that the parser has read is served: its connection serves one at a time. Asked before Fastify sees it, since a packet may have hundreds. */
export function isServed(socket: Socket): boolean {
  const connection = connectionOf(socket);
  if (isOutstanding(connection.last)) endAfter(connection.last);
  // Node also passes on requests that follow a reset, or a request whose response closes the connection (RFC 9112, section 9.6).
  return !connection.isEnding && socket.writable;
}

/**
 * Sets the time-out for a response that begins now. Half: Node counts a write queue that has become shorter as activity, so a response that nobody reads is
 * cut off after twice the time-out.
 */
export const expectReader = ({ timeout }: Server, socket: Socket) => socket.setTimeout(timeout / 2);

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

/** Follows connections, and each request until its end. */
export const watchConnections = fp(async (app: FastifyInstance) => {
  const { server, metrics, config, isProxy } = app;
  const ends: End[] = [];
  let open = 0;

  app.decorate('atEnd', (end) => void ends.push(end));
  app.decorateRequest('client', null as unknown as Client);
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request;
    const connection = connectionOf(raw.socket);
    connection.last = reply;
    request.client = isProxy ? clientBehind(raw, connection.client, isProxy) : connection.client;
    // Once, also if the client is gone before its response.
    reply.raw.once('close', () => {
      for (const end of ends) end(request, reply);
      if (!raw.complete && !raw.socket.destroyed) discardBody(raw);
    });
    done();
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
    });
  });
  metrics.add('animal_store_connections', 'Open connections.', () => open);
  server.on('timeout', onTimeout);
});
