/** Creates the Fastify server, and the exchanges of its requests. They need each other: a URL that cannot be decoded reaches no hook. */
import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import fastify, { type FastifyHttpOptions } from 'fastify';
import { limits } from '../core/limits.ts';
import { answerError, refuseConnection, type Sending } from './connection/client-errors.ts';
import { type LogError, type SendError, toApiError } from './errors.ts';
import { createExchanges, type Exchanges, late } from './exchange.ts';
import type { Limits } from './limits.ts';
import type { Metrics } from './metrics.ts';
import type { App } from './operation.ts';

const serverOptions: FastifyHttpOptions<Server> = {
  bodyLimit: limits.bodyBytes,
  requestTimeout: limits.request,
  keepAliveTimeout: limits.keepAlive,
  return503OnClosing: false,
  // With a logger, Fastify adds two listeners to each response. request-log.ts writes the request lines instead.
  logger: false,
  genReqId: () => randomUUID(),
  // A path parameter may be as long as the URL. Validation decides whether it is a number.
  routerOptions: { maxParamLength: limits.headerBytes },
  // request-checks.ts rejects a missing or repeated Host header, so that the response has the standard error body.
  http: {
    maxHeaderSize: limits.headerBytes,
    requireHostHeader: false,
    joinDuplicateHeaders: true,
    connectionsCheckingInterval: 500,
    // Saves a tenth of a read. The stream of a request without a body emits no event: body.ts replaces it before a body is read.
    optimizeEmptyRequests: true,
  },
};

export interface ServerOptions {
  limits: Limits;
  metrics: Metrics;
  /** Whether an address is that of a proxy whose X-Forwarded-For header is trusted. If undefined, there is no proxy. */
  trustProxy: ((address: string) => boolean) | undefined;
  sending: Sending;
  logError: LogError;
  sendError: SendError;
}

/** Returns the lines of the headers that all responses of a path carry, also if a part of it cannot be decoded, so that it has no route. */
function watchHeaders(app: App): (url: string) => string {
  const known: { path: RegExp; headers: string }[] = [];
  app.addHook('onRoute', ({ url, config }) => {
    if (!config?.headers) return;
    const parts = url.split(/:\w+/).map((part) => RegExp.escape(part));
    known.push({
      path: new RegExp(`^(?:http://[^/?]+)?${parts.join('[^/?]+')}(?:\\?|$)`, 'i'),
      headers: config.headers,
    });
  });
  return (url) => known.find(({ path }) => path.test(url))?.headers ?? '';
}

export function createServer(options: ServerOptions): { app: App; exchanges: Exchanges } {
  const { limits: given, metrics, trustProxy, sending, logError, sendError } = options;
  const app: App = fastify({
    ...serverOptions,
    ...(trustProxy && { trustProxy }),
    frameworkErrors(error, request, reply) {
      const exchange = exchanges.begin(request, reply);
      exchange.code = toApiError(error).code;
      exchange.routeHeaders = headersOfPath(request.url);
      sendError(error, request, reply);
    },
    clientErrorHandler: (error, socket) => refuseConnection(error, socket, sending),
  });
  const headersOfPath = watchHeaders(app);
  const exchanges = createExchanges(app, {
    ...sending,
    maxInFlight: given.maxInFlight,
    pluginHeaders: given.requestsPerMinute !== undefined,
    onRefused: () => metrics.limited('in_flight'),
    refuseLate(response, exchange) {
      logError(late, { exchange, id: exchange.reqId });
      answerError(response, late, sending);
    },
  });
  return { app, exchanges };
}
