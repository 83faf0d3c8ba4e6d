/** The trail: one log line and one count for each change to accounts and keys, and for each sign-in. It holds ids and addresses, never names or secrets. */
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify';
import type { Trail, TrailEvent, TrailEventName } from '../core/people.ts';
import type { Metrics } from '../http/metrics.ts';

export interface TrailOptions {
  trail: Trail;
  logger: FastifyBaseLogger;
  metrics: Metrics;
}

/** Records an event that `request` caused. */
export type RecordEvent = (event: TrailEventName, request: FastifyRequest, ids?: Omit<TrailEvent, 'event'>) => void;

/** How often the events of the command line are written to the log. */
const takeEveryMs = 2000;

/** Writes an event to the log and counts it. `more`: other members of the line. */
export function createEventLog(
  logger: FastifyBaseLogger,
  metrics: Metrics,
): (event: TrailEvent, more?: object) => void {
  // Written at every LOG_LEVEL: an operator who turns off the request lines still needs to know who made a key.
  const always = logger.child({}, { level: 'info' });
  return ({ event, account, key }, more) => {
    metrics.accountEvent(event);
    always.info({ event, account, key, ...more }, event.replaceAll('_', ' '));
  };
}

/** Also writes the events of the command line, which the store keeps until a server takes them. */
export function createTrail(app: FastifyInstance, { trail, logger, metrics }: TrailOptions): RecordEvent {
  const write = createEventLog(logger, metrics);

  async function takeEvents(): Promise<void> {
    try {
      for (const { at, ...event } of await trail.take()) write(event, { at: at.toISOString() });
    } catch {
      // The store is unavailable, which its readers report. The events stay there.
    }
  }

  let taking = Promise.resolve();
  const timer = setInterval(() => {
    taking = takeEvents();
  }, takeEveryMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await taking;
  });

  return (event, request, ids = {}) =>
    write({ event, ...ids }, { address: request.exchange.address, reqId: request.id });
}
