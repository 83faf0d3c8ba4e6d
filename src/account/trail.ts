/** The trail: one log line and one count for each change to accounts and keys, and for each sign-in. It holds ids and addresses, never names or secrets. */
import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { TrailEvent } from '../core/people.ts';
import type { Metrics } from '../http/metrics.ts';

/** Returns a function that records an event, with the request that caused it, if one did, and the ids of the account, if there is one, and of the key. */
export function createTrail(logger: FastifyBaseLogger, metrics: Metrics) {
  // Written at every LOG_LEVEL: an operator who turns off the request lines still needs to know who made a key.
  const always = logger.child({}, { level: 'info' });
  return (event: TrailEvent, request?: FastifyRequest, account?: number, key?: number) => {
    metrics.accountEvent(event);
    const from = request && { address: request.client.address, reqId: request.id };
    always.info({ event, account, key, ...from }, event.replaceAll('_', ' '));
  };
}
