/** The places that an exchange takes: for its body, for the work of the store, and for a large response body. */
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { type Claimant, createPlaces, createSeparatePlaces, type Holder } from '../core/places.ts';
import { networkOf } from './addresses.ts';
import { HttpError } from './errors.ts';

/** The part of an exchange that says which places it has. */
export interface PlaceTaker extends Claimant {
  address?: string | undefined;
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
  /** Of the first request for it, against whom it counts. */
  holder: Holder;
}

export interface ExchangePlaces {
  /** Starts to await a request body. Throws ApiError `service_unavailable` if the client may not send another body now. */
  awaitBody(exchange: PlaceTaker, socket: Socket): void;
  /** The request body has arrived, or is no longer needed. */
  endBody(exchange: PlaceTaker): void;
  /**
   * Runs `act`, which may take more than this turn of the event loop, as one of a limited number of requests in progress. Throws ApiError
   * `service_unavailable` if there are too many.
   */
  work<Result>(exchange: PlaceTaker, act: () => Result): Result;
  /**
   * Looks a session up, or a key that was not valid lately: until then, the client has no place. Networks share a small number of look-ups.
   * Throws ApiError `service_unavailable` if there are too many.
   */
  lookUp<Result>(network: string, act: () => Promise<Result>): Promise<Result>;
  /**
   * Counts a large response body until its clients have read it. Throws ApiError `service_unavailable` if that is beyond `limits.unreadBytes`,
   * or beyond a quarter of them for its holder. The size of a body alone is no reason.
   */
  reserveBytes(request: FastifyRequest, body: Buffer): void;
}

/** The kinds of places. That of a request itself has no limit. */
export type PlaceName = 'requests' | 'work' | 'bodies' | 'unread_bytes';

/** Smaller bodies fit into the kernel's send buffer, or nearly so. */
const largeBytes = 64 * 1024;

export const tooMany = new ApiError('service_unavailable');
// Closes: a client that reads nothing may have pipelined a thousand requests more.
const tooManyBodies = new HttpError('service_unavailable', { 'retry-after': '1', connection: 'close' });

interface AllExchangePlaces extends ExchangePlaces {
  /** The response has been sent, or its client is gone. */
  endUnread(exchange: PlaceTaker): void;
  taken(): Record<Exclude<PlaceName, 'requests'>, number>;
}

/** `onRefused` is called before an error is thrown because all places are taken. */
export function createExchangePlaces(maxInFlight: number, onRefused: () => void): AllExchangePlaces {
  const workPlaces = createSeparatePlaces(maxInFlight);
  const bodyPlaces = createSeparatePlaces(maxInFlight);
  const lookUpPlaces = createPlaces<string>(limits.lookUps);
  const unreadBodies = new Map<Buffer, UnreadBody>();

  function unreadBytes(of?: Holder): number {
    let bytes = 0;
    for (const { body, holder } of unreadBodies.values()) if (of === undefined || of === holder) bytes += body.length;
    return bytes;
  }

  function refuse(error: ApiError): never {
    onRefused();
    throw error;
  }

  return {
    awaitBody(exchange, socket) {
      // The client disconnected before its API key was looked up.
      if (exchange.ended) return;
      if (!bodyPlaces.take(exchange)) refuse(tooManyBodies);
      exchange.bodyFrom = socket.bytesRead;
    },

    endBody(exchange) {
      if (exchange.bodyFrom === undefined) return;
      exchange.bodyFrom = undefined;
      bodyPlaces.give(exchange);
    },

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
        const { holder } = exchange;
        const fits = (taken: number, limit: number) => taken === 0 || taken + body.length <= limit;
        if (!fits(unreadBytes(), limits.unreadBytes) || !fits(unreadBytes(holder), limits.unreadBytes / 4))
          refuse(tooManyBodies);
        unread = { body, responses: 0, holder };
        unreadBodies.set(body, unread);
      }
      unread.responses += 1;
      exchange.unread = unread;
    },

    endUnread(exchange) {
      const { unread } = exchange;
      if (unread === undefined) return;
      exchange.unread = undefined;
      unread.responses -= 1;
      if (unread.responses === 0) unreadBodies.delete(unread.body);
    },

    taken: () => ({ work: workPlaces.taken(), bodies: bodyPlaces.taken(), unread_bytes: unreadBytes() }),
  };
}
