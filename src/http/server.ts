/** Creates the Fastify server: its limits and time-outs, what never reaches a route, and what the plugins share. */
import { randomUUID } from 'node:crypto';
import fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import type { AppStore } from '../core/app-store.ts';
import { limits, maxHeaders } from '../core/limits.ts';
import { createClientErrors } from './client-errors.ts';
import { acceptRequest } from './connections.ts';
import type { AppConfig } from './decorations.ts';
import { HttpError } from './errors.ts';
import type { OnEnd } from './log.ts';
import type { Metrics } from './metrics.ts';
import { inNetworks } from './networks.ts';
import { createServer as createHttpServer, METHODS } from './node-http.ts';
import type { App } from './operation.ts';
import { rewriteUrl } from './request-checks.ts';
import type { Headers } from './responses.ts';
import { schemaController } from './validation.ts';

export interface ServerOptions extends AppConfig {
  store: AppStore;
  metrics: Metrics;
  now: () => Date;
  draining: () => boolean;
  logger: FastifyBaseLogger;
}

const otherMethod = new HttpError('bad_request', { connection: 'close' });

/** Creates the server, without routes. `onEnd` is called at the end of each request. `headersFor`: those of every response to a page of an origin. */
export function createServer(options: ServerOptions, onEnd: OnEnd, headersFor: (origin?: string) => Headers) {
  const { store, logger, metrics, now, draining, ...config } = options;
  const isProxy = config.trustProxy && inNetworks(config.trustProxy);
  const clientErrors = createClientErrors({ onEnd, headersFor });
  const methods = new Set(METHODS);
  const app: App = fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => randomUUID(),
    schemaController,
    bodyLimit: limits.bodyBytes,
    rewriteUrl,
    // A path parameter may be as long as the URL. Validation decides whether it is a number.
    routerOptions: { maxParamLength: limits.headerBytes },
    return503OnClosing: false,
    ...(isProxy && { trustProxy: isProxy }),
    clientErrorHandler: clientErrors.clientErrorHandler,
    serverFactory(serve) {
      const server = createHttpServer({
        maxHeaderSize: limits.headerBytes,
        // It bounds the arrival of the headers, too.
        requestTimeout: limits.requestMs,
        keepAliveTimeout: limits.keepAliveMs,
        // request-checks.ts rejects a missing or repeated Host header, so that the response has the standard error body.
        requireHostHeader: false,
        joinDuplicateHeaders: true,
        connectionsCheckingInterval: 500,
        // Saves a tenth of a read. The stream of a request without a body emits no event.
        optimizeEmptyRequests: true,
      });
      server.maxHeadersCount = maxHeaders;
      server.timeout = limits.silenceMs;
      // A client that has closed only its sending side still expects its response. Node's types lack this property.
      Object.assign(server, { httpAllowHalfOpen: true });
      // By itself, Node would send 100 before any hook has checked the API key, and 417 for other expectations.
      for (const event of ['request', 'checkContinue', 'checkExpectation'])
        server.on(event, (request, response) => {
          if (!acceptRequest(request)) return;
          // The parser also knows the methods of RTSP, for which the router has no answer.
          if (methods.has(request.method)) serve(request, response);
          else clientErrors.refuse(request.socket, otherMethod);
        });
      clientErrors.refuseConnect(server);
      return server;
    },
  });
  const decorations = {
    store,
    config: { ...config, base: config.baseUrl ?? '/v1' },
    metrics,
    now,
    draining,
  } satisfies Partial<FastifyInstance>;
  for (const [name, value] of Object.entries(decorations)) app.decorate<unknown>(name, value);
  app.decorateRequest('bodyMs', 0);
  app.decorateRequest('errorCode', undefined);
  metrics.watch(() => store.measure());
  return app;
}
