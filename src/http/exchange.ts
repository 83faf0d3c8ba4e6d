/**
 * The account of a request: what it holds of the server is taken and given back here. It begins when the headers are in and ends, once,
 * when Node closes the response, which it does after the last byte as well as after a reset.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../errors.ts';
import { HttpError } from './errors.ts';
import { type Observation, type Observe, traceIdOf } from './request-log.ts';
import { createShares } from './shares.ts';

declare module 'fastify' {
  interface FastifyRequest {
    exchange: Exchange;
  }
  interface FastifyContextConfig {
    /** Names and values, in turn, of headers that each response of a route carries, whatever its status. */
    headers?: readonly string[];
  }
}

/** Who holds a place: an API key, by its id, or where there is none an address. */
type Holder = number | string;

export interface Exchange extends Observation {
  routeHeaders: readonly string[];
  /** Whether a plugin or a hook sets headers on the reply. */
  headersSet: boolean;
  /** As performance.now() gave it. */
  begun: number;
  holder: Holder;
  /** The socket's count of bytes when a body began to arrive; undefined where none is awaited. */
  bodyFrom: number | undefined;
  /** A large body that the client may not have read yet. */
  unread: Buffer | undefined;
  ended: boolean;
}

export interface Exchanges {
  /** To be called once for each request, as the first thing. */
  begin(request: FastifyRequest, reply: FastifyReply): Exchange;
  /** A body is awaited. Throws ApiError `service_unavailable` where the client may not have more of them under way. */
  awaitBody(exchange: Exchange, socket: Socket): void;
  /** The body is there, or is not wanted any more. */
  endBody(exchange: Exchange): void;
  /**
   * Does what takes more than this turn of the event loop, within the requests that may be worked on at once. Throws ApiError
   * `service_unavailable` where there are too many.
   */
  work<Result>(exchange: Exchange, act: () => Result): Result;
  /** Lets a body be sent. Throws ApiError `service_unavailable` where clients hold too much that they have not read. */
  reserveBytes(request: FastifyRequest, body: Buffer): void;
  /** What is held now, by its name. */
  held(): Record<HeldName, number>;
}

export const heldNames = ['requests', 'work', 'bodies', 'unread_bytes'] as const;
export type HeldName = (typeof heldNames)[number];

export interface ExchangeOptions {
  /** Requests worked on, and bodies awaited, at the same time. */
  maxInFlight: number;
  /** Whether plugins set headers on replies. */
  pluginHeaders: boolean;
  observe: Observe;
  /** Called where there was no room. */
  onRefused: () => void;
}

const noHeaders: readonly string[] = [];

/** On the response too, for what Fastify never hears of. */
type Accounted = ServerResponse & { exchange?: Exchange };

/** The account of the request that `response` answers; undefined where Node answers by itself. */
export function accountOf(response: ServerResponse): Exchange | undefined {
  return (response as Accounted).exchange;
}

/** Not in the table of RFC 9110; nginx's, and since then others', for a client that closed before its response began. */
const clientClosed = 499;

/** Smaller bodies fit into the kernel's buffers, or nearly. */
const largeBytes = 64 * 1024;
const maxUnreadBytes = 32 * 1024 * 1024;

export const tooMany = new ApiError('service_unavailable');
const tooManyBodies = new HttpError('service_unavailable', { 'retry-after': '1', connection: 'close' });

/** A body may take so long, and then a second more for each `bodyBytesPerSecond` that came. */
const bodyGraceMs = 3000;
const bodyBytesPerSecond = 8 * 1024;
const sweepMs = 500;

export function createExchanges(
  app: FastifyInstance,
  { maxInFlight, pluginHeaders, observe, onRefused }: ExchangeOptions,
): Exchanges {
  const slots = createShares<Holder>(maxInFlight);
  const bodies = createShares<Holder>(maxInFlight);
  const unreadBytes = createShares<Holder>(maxUnreadBytes);
  /** Large bodies on their way: how many responses share each, and who was the first to ask for it. */
  const sharers = new Map<Buffer, { count: number; holder: Holder }>();
  const awaited = new Map<Exchange, Socket>();
  let requests = 0;

  function refuse(failure: ApiError): never {
    onRefused();
    throw failure;
  }

  function endBody(exchange: Exchange): void {
    if (exchange.bodyFrom === undefined) return;
    exchange.bodyFrom = undefined;
    awaited.delete(exchange);
    bodies.give(exchange.holder);
  }

  function endUnread(exchange: Exchange): void {
    const { unread } = exchange;
    if (unread === undefined) return;
    exchange.unread = undefined;
    const shared = sharers.get(unread) as { count: number; holder: Holder };
    shared.count -= 1;
    if (shared.count > 0) return;
    sharers.delete(unread);
    unreadBytes.give(shared.holder, unread.length);
  }

  function end(this: ServerResponse): void {
    const exchange = (this as Accounted).exchange as Exchange;
    exchange.ended = true;
    requests -= 1;
    endBody(exchange);
    endUnread(exchange);
    exchange.status = this.headersSent ? this.statusCode : clientClosed;
    exchange.ms = performance.now() - exchange.begun;
    exchange.aborted = !this.writableFinished;
    observe(exchange);
  }

  // A body that trickles in holds a place that others may want.
  const sweep = setInterval(() => {
    const now = performance.now();
    for (const [{ begun, bodyFrom }, socket] of awaited) {
      const allowedMs = bodyGraceMs + (1000 * (socket.bytesRead - (bodyFrom as number))) / bodyBytesPerSecond;
      if (now - begun < allowedMs) continue;
      app.server.emit(
        'clientError',
        Object.assign(new Error('slow body'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }),
        socket,
      );
    }
  }, sweepMs).unref();
  app.addHook('onClose', async () => clearInterval(sweep));

  app.decorateRequest('exchange');

  return {
    begin(request, reply) {
      const { url = null, config } = request.routeOptions;
      const exchange: Exchange = {
        reqId: request.id,
        method: request.method,
        route: url,
        routeHeaders: config?.headers ?? noHeaders,
        headersSet: pluginHeaders,
        begun: performance.now(),
        traceId: traceIdOf(request.headers.traceparent),
        key: undefined,
        holder: '',
        code: undefined,
        status: 0,
        ms: 0,
        aborted: false,
        bodyFrom: undefined,
        unread: undefined,
        ended: false,
      };
      request.exchange = exchange;
      (reply.raw as Accounted).exchange = exchange;
      requests += 1;
      reply.raw.on('close', end);
      return exchange;
    },

    awaitBody(exchange, socket) {
      // The client was gone before its key was looked up.
      if (exchange.ended) return;
      if (!bodies.take(exchange.holder)) refuse(tooManyBodies);
      exchange.bodyFrom = socket.bytesRead;
      awaited.set(exchange, socket);
    },

    endBody,

    work(exchange, act) {
      const { holder } = exchange;
      if (!slots.take(holder)) refuse(tooMany);
      let pending = false;
      try {
        const result = act();
        if (result instanceof Promise) {
          pending = true;
          const giveBack = () => slots.give(holder);
          result.then(giveBack, giveBack);
        }
        return result;
      } finally {
        if (!pending) slots.give(holder);
      }
    },

    reserveBytes({ exchange, ip }, body) {
      if (body.length < largeBytes || exchange.ended) return;
      const shared = sharers.get(body);
      exchange.holder ||= ip;
      if (shared) shared.count += 1;
      else if (!unreadBytes.take(exchange.holder, body.length)) refuse(tooMany);
      else sharers.set(body, { count: 1, holder: exchange.holder });
      exchange.unread = body;
    },

    held: () => ({
      requests,
      work: slots.taken(),
      bodies: bodies.taken(),
      unread_bytes: unreadBytes.taken(),
    }),
  };
}
