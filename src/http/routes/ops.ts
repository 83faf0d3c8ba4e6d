/** The operators' door: whether the process lives, whether it is ready, and what it measures. It asks for no key. */
import fastify, { type FastifyInstance } from 'fastify';
import { ApiError } from '../../errors.ts';
import { renderError, toApiError } from '../errors.ts';
import { standingHeaders } from '../responses.ts';

export interface OpsOptions {
  /** Whether requests are welcome: the store answers, and nobody has asked the process to stop. */
  ready: () => boolean | Promise<boolean>;
  /** The text that Prometheus reads, and its type. */
  metrics: () => Promise<string>;
  metricsType: string;
}

/** Builds the door; nothing listens yet. */
export function buildOpsServer({ ready, metrics, metricsType }: OpsOptions): FastifyInstance {
  const ops = fastify({ logger: false, forceCloseConnections: true });
  ops.setErrorHandler((error, _request, reply) => {
    const failure = toApiError(error);
    return reply
      .code(failure.status)
      .headers({ ...standingHeaders, ...failure.headers, 'content-type': 'application/json' })
      .send(Buffer.from(renderError(failure).body, 'latin1'));
  });
  ops.setNotFoundHandler(() => {
    throw new ApiError('route_not_found');
  });
  ops.addHook(
    'onSend',
    async (request, reply) => void reply.headers({ 'cache-control': 'no-store', 'x-request-id': request.id }),
  );
  ops.get('/livez', () => ({ status: 'live' }));
  ops.get('/readyz', async () => {
    if (!(await ready())) throw new ApiError('service_unavailable');
    return { status: 'ready' };
  });
  ops.get('/metrics', async (_request, reply) => reply.type(metricsType).send(await metrics()));
  return ops;
}
