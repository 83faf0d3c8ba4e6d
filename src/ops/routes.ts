/** The ops port: liveness, readiness and metrics. It needs no API key. */
import fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyRequest, LogController } from 'fastify';
import { ApiError } from '../core/errors.ts';
import { HttpError, sendError } from '../http/errors.ts';
import { responseHeaders } from '../http/headers.ts';
import type { ServesHost } from '../http/hosts.ts';
import { requestChecks, rewriteUrl } from '../http/request-checks.ts';
import { schemaController } from '../http/validation.ts';

export interface OpsOptions {
  /** Which build runs. */
  release: { version: string; revision: string | undefined };
  /** Why the server should not receive requests now: the store does not answer, or the process stops. Undefined if it should. */
  obstacle: () => string | undefined | Promise<string | undefined>;
  /** The metrics, in the text format of Prometheus. */
  metrics: () => Promise<string>;
  /** The hosts that requests may name. If undefined, any. */
  servesHost: ServesHost | undefined;
  logger: FastifyBaseLogger;
}

const textFormat = 'text/plain; version=0.0.4; charset=utf-8';

const notAllowed = new HttpError('method_not_allowed', { allow: 'GET, HEAD' });

/** The error for a request that has no route. */
function unserved(ops: FastifyInstance, { url }: FastifyRequest): ApiError {
  const [path = ''] = url.split('?', 1);
  return ops.hasRoute({ method: 'GET', url: path }) ? notAllowed : new ApiError('route_not_found');
}

/** Builds the server of the ops port. It does not listen yet. */
export function buildOpsServer({ release, obstacle, metrics, servesHost, logger }: OpsOptions): FastifyInstance {
  // The check rejects a missing or repeated Host header, so that the response has the standard error body.
  const http = { requireHostHeader: false, joinDuplicateHeaders: true };
  const logController = new LogController({ disableRequestLogging: true });
  const ops = fastify({
    forceCloseConnections: true,
    http,
    schemaController,
    loggerInstance: logger,
    logController,
    rewriteUrl,
  });
  ops.decorate('notFound', (request) => {
    throw unserved(ops, request);
  });
  ops.decorate('draining', () => false);
  ops.register(responseHeaders);
  ops.register(requestChecks, { servesHost });
  ops.addHook('onSend', (_request, reply, _payload, done) => {
    reply.header('cache-control', 'no-store');
    done();
  });
  ops.setErrorHandler(sendError);
  ops.get('/livez', () => ({ status: 'live' }));
  ops.get('/readyz', async () => {
    const reason = await obstacle();
    if (reason !== undefined) throw new ApiError('service_unavailable', `Not ready: ${reason}.`);
    return { status: 'ready', ...release };
  });
  ops.get('/metrics', async (_request, reply) => reply.type(textFormat).send(await metrics()));
  return ops;
}
