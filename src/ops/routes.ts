/** The ops port: liveness, readiness and metrics. It needs no API key. */
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { ApiError } from '../core/errors.ts';
import { HttpError, logError, renderError, toApiError } from '../http/errors.ts';
import { headersIn } from '../http/head.ts';
import type { ServesHost } from '../http/hosts.ts';
import { createCheck } from '../http/request-checks.ts';
import { schemaController } from '../http/validation.ts';

export interface OpsOptions {
  /** Which build runs. */
  release: { version: string; revision: string | undefined };
  /** Whether the server should receive requests: the store responds, and the process is not stopping. */
  ready: () => boolean | Promise<boolean>;
  registry: Pick<Registry, 'metrics' | 'contentType'>;
  /** The hosts that requests may name. If undefined, any. */
  servesHost: ServesHost | undefined;
  logger: Pick<Logger, 'error'>;
}

const notAllowed = new HttpError('method_not_allowed', { allow: 'GET, HEAD' });

/** The error for a request that has no route. */
function unserved(ops: FastifyInstance, { url }: FastifyRequest): ApiError {
  const [path = ''] = url.split('?', 1);
  return ops.hasRoute({ method: 'GET', url: path }) ? notAllowed : new ApiError('route_not_found');
}

/** Builds the server of the ops port. It does not listen yet. */
export function buildOpsServer({ release, ready, registry, servesHost, logger }: OpsOptions): FastifyInstance {
  // The check rejects a missing or repeated Host header, so that the response has the standard error body.
  const http = { requireHostHeader: false, joinDuplicateHeaders: true };
  const ops = fastify({ forceCloseConnections: true, http, schemaController });
  const check = createCheck(servesHost);
  // Before a body is read: its content does not matter.
  ops.addHook('onRequest', (request, _reply, done) =>
    done(check(request.raw) ?? (request.is404 ? unserved(ops, request) : undefined)),
  );
  ops.setErrorHandler((thrown, { id: reqId }, reply) => {
    const error = toApiError(thrown);
    logError(error, { reqId }, logger);
    const { status, lines, body, closes } = renderError(error);
    if (closes) reply.raw.shouldKeepAlive = false;
    reply.code(status).headers(Object.fromEntries(headersIn(lines)));
    return reply.send(Buffer.from(body, 'latin1'));
  });
  ops.addHook(
    'onSend',
    async (request, reply) => void reply.headers({ 'cache-control': 'no-store', 'x-request-id': request.id }),
  );
  ops.get('/livez', () => ({ status: 'live' }));
  ops.get('/readyz', async () => {
    if (!(await ready())) throw new ApiError('service_unavailable');
    return { status: 'ready', ...release };
  });
  ops.get('/metrics', async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));
  return ops;
}
