/** The trail: one log line and one count for each change to accounts and keys, and for each sign-in. It holds ids and addresses, never names or secrets. */
import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { TrailEvent, TrailEventName } from '../core/people.ts';
import type { Metrics } from '../http/metrics.ts';

/** Writes an event to the log and counts it. `more`: other members of the line. */
export function createEventLog(logger: FastifyBaseLogger, metrics: Metrics) {
  // Written at every LOG_LEVEL: an operator who turns off the request lines still needs to know who made a key.
  const always = logger.child({}, { level: 'info' });
  return ({ event, account, key }: TrailEvent, more?: object) => {
    metrics.accountEvent(event);
    always.info({ event, account, key, ...more }, event.replaceAll('_', ' '));
  };
}

/** Returns a function that records an event that `request` caused. */
export function createTrail(logger: FastifyBaseLogger, metrics: Metrics) {
  const write = createEventLog(logger, metrics);
  return (event: TrailEventName, request: FastifyRequest, ids: Omit<TrailEvent, 'event'>) =>
    write({ event, ...ids }, { address: request.record.address, reqId: request.id });
}
