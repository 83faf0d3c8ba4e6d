/**
 * The open connections: how many there may be, and which request of each is being answered. A connection has one active request. Those that its client
 * sends before (RFC 9112, section 9.3.2) wait: their finished responses would fill the memory, and a hundred large pages take a gigabyte.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { addressOf } from '../addresses.ts';
import { networkOf, plainAddress } from '../networks.ts';
import { endRecord, newRecord, type OnEnd } from '../request-record.ts';
import type { Shares } from '../shares.ts';
import { type Connection, connections } from './connection.ts';

export interface ConnectionOptions {
  shares: Shares;
  maxConnections: number;
  /** Whether an address is that of a trusted proxy. */
  isProxy: (address: string) => boolean;
  /** Serves a request whose turn has come on its connection. */
  serve: RequestListener;
  /** Responds to a connection that exceeds the limit, and closes it. */
  refuse: (socket: Socket) => void;
  /** Answers a request that has no response, and closes its connection. */
  refuseLate: (response: ServerResponse, error: ApiError) => void;
  /** Pauses a connection that was answered until a later turn. Returns false if it did not. */
  readLater: (connection: Connection) => boolean;
  onEnd: OnEnd;
}

const sweepMs = 500;

/** How long a body may take, besides a second for each `limits.bodyRate` bytes of it. */
const graceMs = 3000;

const late = new ApiError('service_unavailable', undefined, {
  cause: new Error(`no response within ${limits.response / 1000} s`),
});

const slow = new ApiError('request_timeout');

/** Why a request has waited too long: for its response, or for its body, which occupies a place that others may need. */
function faultAt(now: number, { response, socket, bytesBefore }: Connection): ApiError | undefined {
  if (!response || response.headersSent) return undefined;
  const { complete, record } = response.req;
  const ms = now - record.begun;
  if (ms >= limits.response) return late;
  return complete || ms < graceMs + (1000 * (socket.bytesRead - bytesBefore)) / limits.bodyRate ? undefined : slow;
}

/** What Node's parser has, but its types lack. A listener that returns 2 ends the parsing, as after an upgrade. */
interface Parser {
  onIncoming(request: IncomingMessage, keepsAlive: boolean): number;
}

/** Lets the parser leave what follows a reset: one packet may have 2,400 requests, and Node would make an error for each. */
function stopAtReset(socket: Socket): void {
  const { parser } = socket as Socket & { parser: Parser };
  const { onIncoming } = parser;
  parser.onIncoming = (request, keepsAlive) => (socket.destroyed ? 2 : onIncoming(request, keepsAlive));
}

/** Installs the listeners of `server`. */
export function installConnections(server: Server, options: ConnectionOptions) {
  const { shares, maxConnections, isProxy, serve, refuse, refuseLate, readLater, onEnd } = options;
  /** The oldest first. */
  const open = new Set<Connection>();

  /** Closes the oldest idle connection of the holder that has most. Returns false if it has none that is idle. */
  function makeRoom(): boolean {
    const most = shares.most('connections');
    for (const { holder, socket, response } of open) {
      // A paused one may have sent a request.
      if (holder !== most || response || socket.isPaused()) continue;
      close(socket);
      socket.destroy();
      return true;
    }
    return false;
  }

  function close(socket: Socket): void {
    const connection = connections.get(socket);
    if (!connection) return;
    connections.delete(socket);
    open.delete(connection);
    if (connection.holder !== undefined) shares.give(connection.holder, 'connections');
    shares.give(connection.network, 'pipelined', connection.waiting.splice(0).length);
    // Node reports a response as closed with its socket; this is for one that it forgot.
    if (connection.response) end(connection, connection.response);
  }

  server.on('connection', (socket) => {
    const address = plainAddress(socket.remoteAddress);
    const network = networkOf(address);
    const holder = isProxy(address) ? undefined : network;
    if (holder !== undefined) {
      if (shares.taken().connections >= maxConnections && !makeRoom()) return refuse(socket);
      shares.add(holder, 'connections');
    }
    const connection: Connection = {
      socket,
      address,
      network,
      holder,
      response: undefined,
      request: undefined,
      bytesBefore: 0,
      waiting: [],
    };
    connections.set(socket, connection);
    open.add(connection);
    stopAtReset(socket);
    socket.once('close', () => close(socket));
  });

  function onClose(this: ServerResponse): void {
    const { connection } = this.req.record;
    if (connection.response === this) end(connection, this);
  }

  function end(connection: Connection, response: ServerResponse): void {
    const { network, request, socket, waiting } = connection;
    // Rejected by client-errors.ts before it began.
    if (waiting[0] === response) {
      waiting.shift();
      shares.give(network, 'pipelined');
    }
    if (request?.complete) connection.request = undefined;
    connection.response = waiting[0];
    connection.bytesBefore = socket.bytesRead;
    onEnd(endRecord(response));
    if (waiting.length > 0) setImmediate(beginNext, connection);
    else if (!readLater(connection) && socket.isPaused()) socket.resume();
  }

  /** In a turn of the event loop of its own: what waits on one connection may be seconds of work. */
  function beginNext({ network, socket, waiting }: Connection): void {
    const next = socket.destroyed ? undefined : waiting.shift();
    if (!next) return;
    shares.give(network, 'pipelined');
    next.req.record.begun = performance.now();
    // client-errors.ts has already rejected a request whose body could not be parsed.
    if (!next.headersSent) serve(next.req, next);
  }

  function enqueue({ socket, network, waiting }: Connection, response: ServerResponse): void {
    // Reset the connection: after a normal close, the kernel would keep trying to send its buffered megabytes of responses.
    if (waiting.length === limits.pipelinedOnConnection || !shares.take(network, 'pipelined'))
      return void socket.resetAndDestroy();
    waiting.push(response);
    socket.pause();
    socket.off('resume', keepPaused).on('resume', keepPaused);
  }

  /** Node resumes the socket after each response, to discard the rest of the request body. */
  function keepPaused(this: Socket): void {
    if (connections.get(this)?.waiting.length) this.pause();
  }

  const onRequest: RequestListener = (request, response) => {
    const connection = connections.get(request.socket);
    if (!connection) return;
    const { address: own, network } = connection;
    // Only from a proxy: otherwise a client could make each refusal parse 16 KiB of addresses.
    const address = connection.holder === undefined ? addressOf(request, own, isProxy) : own;
    request.record = newRecord(request, connection, address, address === own ? network : networkOf(address));
    connection.request = request;
    response.on('close', onClose);
    if (connection.response) return enqueue(connection, response);
    connection.response = response;
    serve(request, response);
  };
  // By itself, Node would send 100 before any hook has checked the API key, and 417 for other expectations. Instead, request-checks.ts
  // rejects unsupported expectations, and body.ts sends 100 when the body is wanted.
  for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, onRequest);

  /** Of the connections with unsent bytes, those whose client reads nothing get a time-out. server.timeout would also count the time of the store. */
  const sweep = setInterval(() => {
    const now = performance.now();
    for (const connection of open) {
      const { socket, response } = connection;
      const unread = socket.writableLength > 0;
      if (unread && !socket.timeout) socket.setTimeout(limits.stall);
      else if (!unread && socket.timeout === limits.stall) socket.setTimeout(0);
      const error = faultAt(now, connection);
      if (response && error) refuseLate(response, error);
    }
  }, sweepMs).unref();

  server.on('timeout', (socket) => {
    // Reset the connection: after a normal close, the kernel would keep trying to send its buffered megabytes for minutes.
    if (socket.timeout === limits.stall) socket.resetAndDestroy();
    // The socket was idle for keepAliveTimeout. Node leaves closing it to the listener of this event.
    else socket.destroy();
  });

  return {
    close: () => clearInterval(sweep),
    /** Closes idle keep-alive connections, which would otherwise delay the close of the server until their time-out. */
    closeIdle(): void {
      server.closeIdleConnections();
      // Node counts a connection without any request yet, such as a browser's spare one, as busy.
      for (const { socket } of open) if (socket.bytesRead === 0) socket.destroy();
    },
    /** How many are open, and how many of them have a request. */
    count: () => ({ connections: open.size, requests: [...open].filter(({ response }) => response).length }),
  };
}
