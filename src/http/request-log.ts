/** One line per request, at info, when it has been answered. */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Failure } from '../errors.ts';

export function installRequestLog(app: FastifyInstance): void {
  app.addHook('onResponse', (request, reply, done) => {
    request.log.info(
      {
        reqId: request.id,
        method: request.method,
        route: request.routeOptions.url ?? null,
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime * 100) / 100,
        key: request.apiKey?.id,
      },
      'request',
    );
    done();
  });
}

/** The line of a request that was refused before it came to a route. */
export function logRefusal(log: FastifyBaseLogger, reqId: string, { status, code }: Failure): void {
  log.info({ reqId, status, code }, 'request');
}
