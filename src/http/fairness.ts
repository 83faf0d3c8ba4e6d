/**
 * Bounds the requests in flight, and what one holder has of them. A holder is the account of the API key; without a valid key, the network of the client's
 * address. Crowds are nginx's.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { KeyCache } from './auth.ts';
import { type HttpError, overloaded } from './errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Counts a request as `weight` requests in flight of its holder, instead of what it counted before, until its end. Returns the error to send if the
     * holder would have more than remains free: alone it gets half of the bound, two get a third each.
     */
    reserve: (reply: FastifyReply, weight: number) => HttpError | undefined;
  }
  interface FastifyRequest {
    holder: string | number;
    /** Its weight among the requests in flight. */
    weight: number;
  }
}

/** `keys`: those that were valid when they were last looked up. */
export const fairness = fp<{ keys: KeyCache }>(async (app: FastifyInstance, { keys }) => {
  /** The requests in flight of each holder, by weight. */
  const shares = new Map<string | number, number>();
  let inFlight = 0;

  /** Accounts made by open sign-up share one holder for each network: otherwise one person could have a thousand shares. */
  function holderOf({ apiKey, headers, client }: FastifyRequest): string | number {
    const key = apiKey ?? keys.find(headers.authorization)?.key;
    return key ? (key.network ?? key.accountId) : client.network;
  }

  function giveBack(request: FastifyRequest): void {
    const { holder, weight } = request;
    if (weight === 0) return;
    const left = (shares.get(holder) ?? 0) - weight;
    if (left > 0) shares.set(holder, left);
    else shares.delete(holder);
    inFlight -= weight;
    request.weight = 0;
  }

  app.decorateRequest('holder', '');
  app.decorateRequest('weight', 0);
  app.decorate('reserve', ({ request, raw }, weight) => {
    giveBack(request);
    // The request has ended: what it takes would never be given back.
    if (raw.destroyed) return undefined;
    const holder = holderOf(request);
    const share = (shares.get(holder) ?? 0) + weight;
    if (share > app.config.limits.inFlight - inFlight) {
      app.metrics.limited('in_flight');
      return overloaded;
    }
    shares.set(holder, share);
    inFlight += weight;
    request.holder = holder;
    request.weight = weight;
    return undefined;
  });
  app.atEnd(giveBack);
  app.metrics.add('animal_store_in_flight', 'Requests in flight; a page of animals counts as several.', () => inFlight);
  app.addHook('onRequest', (_request, reply, done) => done(app.reserve(reply, 1)));
});
