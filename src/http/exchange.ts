/**
 * The record of one request and its response: an exchange. It begins when the request headers have arrived. It ends, once, when Node closes the
 * response, after the last byte or after a reset; at the latest when the socket is closed. It then gives back the places that it still has.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { addressOf } from './addresses.ts';
import type { CorsHeaders } from './cors.ts';
import { createExchangePlaces, type ExchangePlaces, type PlaceName, type PlaceTaker } from './exchange-places.ts';
import { clientClosed, type EndedExchange, type OnEnd, traceIdOf } from './request-log.ts';

declare module 'fastify' {
  interface FastifyRequest {
    exchange: Exchange;
  }
  interface FastifyContextConfig {
    /** The lines of the headers of each response of the route, whatever its status. */
    headers?: string;
  }
}

/** Its places count against the account of the API key, or of the session; without either, against the network of the client's address. */
export interface Exchange extends EndedExchange, PlaceTaker {
  routeHeaders: string;
  /** Whether a plugin or a hook sets headers on the reply. */
  headersSet: boolean;
  /** performance.now() when the exchange began. */
  begun: number;
}

export interface Exchanges extends ExchangePlaces {
  /** Begins the exchange of a request. Call it once per request, before anything else. */
  begin(request: FastifyRequest, reply: FastifyReply): Exchange;
  /** The socket is closed: ends its exchange, whatever Node or Fastify believe of the request. */
  endOf(socket: Socket): void;
  /** How many places of each kind are taken now. */
  taken(): Record<PlaceName, number>;
}

export interface ExchangeOptions {
  /** Limit of the requests in progress, and separately of the request bodies awaited. */
  maxInFlight: number;
  /** Whether plugins set headers on replies. */
  pluginHeaders: boolean;
  corsHeaders: CorsHeaders;
  onEnd: OnEnd;
  /** Called when a request is rejected because a limit is reached. */
  onRefused: () => void;
  /** Called for a request without a response after `limits.response` milliseconds. Must answer it and close its connection. */
  refuseLate: (response: ServerResponse, exchange: Exchange) => void;
}

/** The exchange is also stored on Node's response, for events that Fastify does not see. */
type WithExchange = ServerResponse & { exchange: Exchange };

const responseKey = Symbol('response');
type WithResponse = Socket & { [responseKey]?: WithExchange | undefined };

/** The exchange that `response` belongs to; undefined if Node responds by itself. */
export function exchangeOf({ exchange }: ServerResponse & { exchange?: Exchange | undefined }): Exchange | undefined {
  return exchange;
}

const sweepMs = 500;

/**
 * A client that has closed only its sending side looks like one that waits, so without a limit a handler that never ends would keep its places.
 */
export const late = new ApiError('service_unavailable', undefined, {
  cause: new Error(`no response within ${limits.response / 1000} s`),
});

function newExchange(request: FastifyRequest, headersSet: boolean): Exchange {
  const { url = null, config } = request.routeOptions;
  return {
    reqId: request.id,
    method: request.method,
    route: url,
    routeHeaders: config?.headers ?? '',
    headersSet,
    begun: performance.now(),
    traceId: traceIdOf(request.headers.traceparent),
    address: addressOf(request),
    key: undefined,
    holder: '',
    stranger: true,
    code: undefined,
    sentCode: undefined,
    isDeprecated: false,
    status: 0,
    ms: 0,
    aborted: false,
    bodyFrom: undefined,
    unread: undefined,
    ended: false,
  };
}

/** Whether a body arrives more slowly than the limits allow. */
function isSlow({ begun, bodyFrom }: Exchange, socket: Socket, now: number): boolean {
  if (bodyFrom === undefined) return false;
  return now - begun >= limits.bodyGrace + (1000 * (socket.bytesRead - bodyFrom)) / limits.bodyRate;
}

export function createExchanges(
  app: FastifyInstance,
  { maxInFlight, pluginHeaders, corsHeaders, onEnd, onRefused, refuseLate }: ExchangeOptions,
): Exchanges {
  const places = createExchangePlaces(maxInFlight, onRefused);
  /**
   * Open connections that have carried a request. Each has one under way at most (connection/pipelining.ts), which it holds itself: of a map with
   * an entry for each request, V8 keeps old tables, and with them their requests, until it collects the old space.
   */
  const sockets = new Set<WithResponse>();
  let requests = 0;

  function end(response: WithExchange): void {
    const { exchange } = response;
    if (exchange.ended) return;
    exchange.ended = true;
    requests -= 1;
    const socket: WithResponse = response.req.socket;
    // The socket may carry the next request already.
    if (socket[responseKey] === response) socket[responseKey] = undefined;
    places.endBody(exchange);
    places.endUnread(exchange);
    exchange.status = response.headersSent ? response.statusCode : clientClosed;
    exchange.ms = performance.now() - exchange.begun;
    exchange.aborted = !response.writableFinished;
    onEnd(exchange);
  }

  function onClose(this: WithExchange): void {
    end(this);
  }

  const sweep = setInterval(() => {
    const now = performance.now();
    for (const socket of sockets) {
      const response = socket[responseKey];
      if (!response) continue;
      const { exchange } = response;
      // A body that trickles in occupies a place that other requests may need.
      if (isSlow(exchange, socket, now)) {
        const error = Object.assign(new Error('slow body'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
        app.server.emit('clientError', error, socket);
      } else if (now - exchange.begun >= limits.response && !response.headersSent) refuseLate(response, exchange);
    }
  }, sweepMs).unref();
  app.addHook('onClose', async () => clearInterval(sweep));

  app.decorateRequest('exchange');

  return {
    ...places,

    begin(request, reply) {
      const cors = corsHeaders(request.headers.origin);
      for (let at = 0; at < cors.length; at += 2) reply.header(cors[at] as string, cors[at + 1]);
      const exchange = newExchange(request, pluginHeaders || cors.length > 0);
      request.exchange = exchange;
      const response = reply.raw as WithExchange;
      response.exchange = exchange;
      requests += 1;
      const socket: WithResponse = request.raw.socket;
      // Not a socket that is closed already: endOf would never be called.
      if (!(responseKey in socket) && !socket.destroyed) sockets.add(socket);
      socket[responseKey] = response;
      response.on('close', onClose);
      return exchange;
    },

    endOf(socket: WithResponse) {
      const response = socket[responseKey];
      if (response) end(response);
      sockets.delete(socket);
    },

    taken: () => ({ requests, ...places.taken() }),
  };
}
