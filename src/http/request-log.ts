/** One line per request, at info, when it has been answered. */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Failure } from '../errors.ts';

export interface Answered {
  reqId: string;
  status: number;
  method?: string;
  /** The route's template, or null where the path has none. */
  route?: string | null;
  ms?: number;
  /** The id of the API key. */
  key?: number | undefined;
  /** The trace that the client's request is part of. */
  traceId?: string | undefined;
  /** Why the request was refused, where it never came to a route. */
  code?: string;
}

/** Told of every answered request. */
export type Observe = (answered: Answered) => void;

export function createRequestLog(log: FastifyBaseLogger): Observe {
  return ({ reqId, method, route, status, ms, key, traceId, code }) => {
    const rounded = ms === undefined ? ms : Math.round(ms * 100) / 100;
    log.info({ reqId, method, route, status, ms: rounded, key, traceId, code }, 'request');
  };
}

/** version "-" trace-id "-" parent-id "-" flags (W3C Trace Context, section 3.2.2). */
const traceparent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/;

export function traceIdOf(header: string | string[] | undefined): string | undefined {
  return header === undefined ? undefined : traceparent.exec(String(header))?.[1];
}

export function observeRequests(app: FastifyInstance, observe: Observe): void {
  app.addHook('onResponse', (request, reply, done) => {
    observe({
      reqId: request.id,
      method: request.method,
      route: request.routeOptions.url ?? null,
      status: reply.statusCode,
      ms: reply.elapsedTime,
      key: request.apiKey?.id,
      traceId: traceIdOf(request.headers.traceparent),
    });
    done();
  });
}

/** Tells of a request that was refused before it came to a route. */
export function observeRefusal(observe: Observe, reqId: string, { status, code }: Failure): void {
  observe({ reqId, status, code });
}
