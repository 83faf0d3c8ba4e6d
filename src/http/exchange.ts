/**
 * Takes the places that a request needs, and gives them back. The record of one request is its exchange. It begins
 * when the request headers have arrived. It ends, once, when Node closes the response, after the last byte or after a reset; at the latest when
 * the socket is closed.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { type Claimant, createPlaces, createSeparatePlaces } from '../core/places.ts';
import { addressOf, networkOf } from './addresses.ts';
import type { CorsHeaders } from './cors.ts';
import { HttpError } from './errors.ts';
import { type EndedExchange, type OnEnd, traceIdOf } from './request-log.ts';

declare module 'fastify' {
  interface FastifyRequest {
    exchange: Exchange;
  }
  interface FastifyContextConfig {
    /** Headers of each response of the route, whatever its status, as alternating names and values. */
    headers?: readonly string[];
  }
}

/** The record of one request and its response. It counts against the account of the API key, or of the session; without either, against the network of the client's address. */
export interface Exchange extends EndedExchange, Claimant {
  routeHeaders: readonly string[];
  /** Whether a plugin or a hook sets headers on the reply. */
  headersSet: boolean;
  /** performance.now() when the exchange began. */
  begun: number;
  /** The socket's bytesRead when the request body began to arrive; undefined if no body is awaited. */
  bodyFrom: number | undefined;
  /** A large response body that the client may not have read yet. */
  unread: UnreadBody | undefined;
  ended: boolean;
}

/** A large response body in flight. All responses that send the same buffer share it. */
interface UnreadBody {
  body: Buffer;
  /** How many responses send it. */
  responses: number;
  /** The first requester, against whom it counts. */
  claimant: Claimant;
}

export interface Exchanges {
  /** Begins the exchange of a request. Call it once per request, before anything else. */
  begin(request: FastifyRequest, reply: FastifyReply): Exchange;
  /** Starts to await a request body. Throws ApiError `service_unavailable` if the client may not send another body now. */
  awaitBody(exchange: Exchange, socket: Socket): void;
  /** The socket is closed: ends its exchange, whatever Node or Fastify believe of the request. */
  endOf(socket: Socket): void;
  /** The request body has arrived, or is no longer needed. */
  endBody(exchange: Exchange): void;
  /**
   * Runs `act`, which may take more than this turn of the event loop, as one of a limited number of requests in progress. Throws ApiError
   * `service_unavailable` if there are too many.
   */
  work<Result>(exchange: Exchange, act: () => Result): Result;
  /**
   * Looks a session up, or a key that was not valid lately: before that, the client has no place. Networks share a small number of look-ups.
   * Throws ApiError `service_unavailable` if there are too many.
   */
  lookUp<Result>(network: string, act: () => Promise<Result>): Promise<Result>;
  /** Reserves memory for a large response body. Throws ApiError `service_unavailable` if too many bytes are still unread by clients. */
  reserveBytes(request: FastifyRequest, body: Buffer): void;
  /** How many places of each kind are taken now. */
  taken(): Record<PlaceName, number>;
}

/** The kinds of places. That of a request itself has no limit; an unread byte counts as a place. */
export const placeNames = ['requests', 'work', 'bodies', 'unread_bytes'] as const;
export type PlaceName = (typeof placeNames)[number];

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

const noHeaders: readonly string[] = [];

/** The exchange is also stored on Node's response, for events that Fastify does not see. */
type WithExchange = ServerResponse & { exchange: Exchange };

const responseKey = Symbol('response');
type WithResponse = Socket & { [responseKey]?: WithExchange | undefined };

/** The exchange that `response` belongs to; undefined if Node responds by itself. */
export function exchangeOf({ exchange }: ServerResponse & { exchange?: Exchange | undefined }): Exchange | undefined {
  return exchange;
}

/** The client disconnected before its response began. Not in RFC 9110: nginx introduced this status, and other servers adopted it. */
const clientClosed = 499;

/** Smaller bodies fit into the kernel's send buffer, or nearly so. */
const largeBytes = 64 * 1024;

export const tooMany = new ApiError('service_unavailable');
const tooManyBodies = new HttpError('service_unavailable', { 'retry-after': '1', connection: 'close' });

const sweepMs = 500;

/**
 * A client that has closed only its sending side looks like one that waits, so without a limit a handler that never ends would keep its places.
 */
export const late = new ApiError('service_unavailable', undefined, {
  cause: new Error(`no response within ${limits.response / 1000} s`),
});

export function createExchanges(
  app: FastifyInstance,
  { maxInFlight, pluginHeaders, corsHeaders, onEnd, onRefused, refuseLate }: ExchangeOptions,
): Exchanges {
  const workPlaces = createSeparatePlaces(maxInFlight);
  const bodyPlaces = createSeparatePlaces(maxInFlight);
  const lookUpPlaces = createPlaces<string>(limits.lookUps);
  const unreadBytes = createSeparatePlaces(limits.unreadBytes);
  const unreadBodies = new Map<Buffer, UnreadBody>();
  /**
   * Open connections that have carried a request. Each has one under way at most (connection/pipelining.ts), which it holds itself: of a map with
   * an entry for each request, V8 keeps old tables, and with them their requests, until it collects the old space.
   */
  const sockets = new Set<WithResponse>();
  let requests = 0;

  function refuse(error: ApiError): never {
    onRefused();
    throw error;
  }

  function endBody(exchange: Exchange): void {
    if (exchange.bodyFrom === undefined) return;
    exchange.bodyFrom = undefined;
    bodyPlaces.give(exchange);
  }

  function endUnread(exchange: Exchange): void {
    const { unread } = exchange;
    if (unread === undefined) return;
    exchange.unread = undefined;
    unread.responses -= 1;
    if (unread.responses > 0) return;
    unreadBodies.delete(unread.body);
    unreadBytes.give(unread.claimant, unread.body.length);
  }

  function end(response: WithExchange): void {
    const { exchange } = response;
    if (exchange.ended) return;
    exchange.ended = true;
    requests -= 1;
    const socket: WithResponse = response.req.socket;
    // The socket may carry the next request already.
    if (socket[responseKey] === response) socket[responseKey] = undefined;
    endBody(exchange);
    endUnread(exchange);
    exchange.status = response.headersSent ? response.statusCode : clientClosed;
    exchange.ms = performance.now() - exchange.begun;
    exchange.aborted = !response.writableFinished;
    onEnd(exchange);
  }

  function onClose(this: WithExchange): void {
    end(this);
  }

  function isSlow({ begun, bodyFrom }: Exchange, socket: Socket, now: number): boolean {
    if (bodyFrom === undefined) return false;
    return now - begun >= limits.bodyGrace + (1000 * (socket.bytesRead - bodyFrom)) / limits.bodyRate;
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
    begin(request, reply) {
      const { url = null, config } = request.routeOptions;
      const cors = corsHeaders(request.headers.origin);
      for (let at = 0; at < cors.length; at += 2) reply.header(cors[at] as string, cors[at + 1]);
      const exchange: Exchange = {
        reqId: request.id,
        method: request.method,
        route: url,
        routeHeaders: config?.headers ?? noHeaders,
        headersSet: pluginHeaders || cors.length > 0,
        begun: performance.now(),
        traceId: traceIdOf(request.headers.traceparent),
        address: addressOf(request),
        key: undefined,
        holder: '',
        stranger: true,
        code: undefined,
        status: 0,
        ms: 0,
        aborted: false,
        bodyFrom: undefined,
        unread: undefined,
        ended: false,
      };
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

    awaitBody(exchange, socket) {
      // The client disconnected before its API key was looked up.
      if (exchange.ended) return;
      if (!bodyPlaces.take(exchange)) refuse(tooManyBodies);
      exchange.bodyFrom = socket.bytesRead;
    },

    endBody,

    work(exchange, act) {
      if (!workPlaces.take(exchange)) refuse(tooMany);
      let pending = false;
      try {
        const result = act();
        if (result instanceof Promise) {
          pending = true;
          const giveBack = () => workPlaces.give(exchange);
          result.then(giveBack, giveBack);
        }
        return result;
      } finally {
        if (!pending) workPlaces.give(exchange);
      }
    },

    async lookUp(network, act) {
      if (!lookUpPlaces.take(network)) refuse(tooMany);
      try {
        return await act();
      } finally {
        lookUpPlaces.give(network);
      }
    },

    reserveBytes({ exchange }, body) {
      if (body.length < largeBytes || exchange.ended) return;
      exchange.holder ||= networkOf(exchange.address);
      let unread = unreadBodies.get(body);
      if (!unread) {
        if (!unreadBytes.take(exchange, body.length)) refuse(tooMany);
        unread = { body, responses: 0, claimant: exchange };
        unreadBodies.set(body, unread);
      }
      unread.responses += 1;
      exchange.unread = unread;
    },

    taken: () => ({
      requests,
      work: workPlaces.taken(),
      bodies: bodyPlaces.taken(),
      unread_bytes: unreadBytes.taken(),
    }),
  };
}
