/**
 * Keeps one client from taking the server from the others: it bounds the requests in flight, and serves next the holder that has spent least time. A holder
 * is the account of the API key; without a valid key, the network of the address.
 */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import type { KnownKey } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { KeyCache } from './auth.ts';
import { HttpError } from './errors.ts';
import { createQueue, type Flow } from './queue.ts';

interface Share extends Flow {
  /** The weight of its requests in flight. */
  inFlight: number;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** A hook behind the key: goes on when it is the turn of the request. */
    takeTurn: onRequestHookHandler;
  }
  interface FastifyRequest {
    share: Share | null;
    /** Its weight among the requests in flight. */
    weight: number;
  }
}

/** Until its client has read it, a response counts as one more request in flight for each 64 KiB. */
const bytesPerWeight = 64 * 1024;

const busy = new ApiError('service_unavailable');

/** Closes the connection, because refusing the requests that are pipelined behind would cost as much again. */
const tooMany = new HttpError('service_unavailable', { 'retry-after': '1', connection: 'close' });

/** `keys`: those that were valid when they were last looked up. */
export const fairness = fp<{ keys: KeyCache }>(async (app: FastifyInstance, { keys }) => {
  const shares = new Map<string | number, Share>();
  let inFlight = 0;

  /** Accounts made by open sign-up share one holder for each network: otherwise one person could have a thousand shares. */
  function shareOf(key: KnownKey | null | undefined, network: string): Share {
    const holder = key ? (key.network ?? key.accountId) : network;
    let share = shares.get(holder);
    if (!share) {
      share = { inFlight: 0, spentMs: 0, waiting: [] };
      shares.set(holder, share);
    }
    return share;
  }

  /** Returns the error if the holder would have more than is free: alone it gets half of the bound, two get a third each. */
  function take(request: FastifyRequest, share: Share, weight: number): ApiError | undefined {
    giveBack(request);
    // The request has ended: what it takes would never be given back.
    if (request.raw.socket.destroyed) return undefined;
    if (share.inFlight + weight > limits.inFlight - inFlight) {
      app.metrics.limited('in_flight');
      return tooMany;
    }
    request.share = share;
    request.weight = weight;
    share.inFlight += weight;
    inFlight += weight;
    return undefined;
  }

  function giveBack(request: FastifyRequest): void {
    if (request.share) request.share.inFlight -= request.weight;
    inFlight -= request.weight;
    request.weight = 0;
  }

  app.decorateRequest('share', null);
  app.decorateRequest('weight', 0);
  app.atEnd(giveBack);
  app.metrics.add('animal_store_in_flight', 'Requests in flight; a large response counts as several.', () => inFlight);
  app.addHook('onRequest', (request, _reply, done) => {
    const { client, headers } = request;
    done(take(request, shareOf(keys.find(headers.authorization)?.key, client.network), 1));
  });
  app.addHook('onSend', (request, _reply, payload, done) => {
    const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
    const bytes = isWhole && request.method !== 'HEAD' ? payload.length : 0;
    const { share } = request;
    const refusal = share && bytes >= bytesPerWeight ? take(request, share, 1 + bytes / bytesPerWeight) : undefined;
    if (refusal) done(refusal);
    else done();
  });

  const enter = createQueue((reply) => {
    app.metrics.limited('event_loop');
    reply.send(busy);
  });
  app.decorate('takeTurn', (request, reply, done) => {
    const share = shareOf(request.apiKey, request.client.network);
    // Until its key was looked up, the request counted for its network, or for what the cache said of the key.
    const refusal = share === request.share ? undefined : take(request, share, 1);
    if (refusal) done(refusal);
    else enter(share, reply, done);
  });

  // What a holder has spent counts half as much each second; one that has spent nearly nothing is forgotten.
  const timer = setInterval(() => {
    for (const [holder, share] of shares) {
      share.spentMs /= 2;
      if (share.spentMs < 0.5 && share.inFlight === 0 && share.waiting.length === 0) shares.delete(holder);
    }
  }, 1000).unref();
  app.addHook('onClose', async () => clearInterval(timer));
});
