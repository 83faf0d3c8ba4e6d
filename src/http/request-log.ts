/** One line per request, at info, when it has been answered. */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Failure } from '../errors.ts';

export interface Answered {
  reqId: string;
  method: string;
  /** The route's template, or null where the path has none. */
  route: string | null;
  status: number;
  ms: number;
  /** The id of the API key. */
  key: number | undefined;
}

export function logRequest(log: FastifyBaseLogger, { reqId, method, route, status, ms, key }: Answered): void {
  log.info({ reqId, method, route, status, ms: Math.round(ms * 100) / 100, key }, 'request');
}

export function installRequestLog(app: FastifyInstance): void {
  app.addHook('onResponse', (request, reply, done) => {
    logRequest(request.log, {
      reqId: request.id,
      method: request.method,
      route: request.routeOptions.url ?? null,
      status: reply.statusCode,
      ms: reply.elapsedTime,
      key: request.apiKey?.id,
    });
    done();
  });
}

/** The line of a request that was refused before it came to a route. */
export function logRefusal(log: FastifyBaseLogger, reqId: string, { status, code }: Failure): void {
  log.info({ reqId, status, code }, 'request');
}
