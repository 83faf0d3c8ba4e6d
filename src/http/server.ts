/** Creates the Fastify server: its limits and time-outs, what never reaches a route, and what the plugins share. */
import { randomUUID } from 'node:crypto';
import fastify, { type FastifyBaseLogger, LogController } from 'fastify';
import type { AppStore } from '../core/app-store.ts';
import { maxHeaders, limits as standard } from '../core/limits.ts';
import { createClientErrorHandler } from './client-errors.ts';
import { isServed } from './connections.ts';
import type { AppConfig } from './decorations.ts';
import type { OnEnd } from './log.ts';
import type { Metrics } from './metrics.ts';
import { inNetworks } from './networks.ts';
import { createServer as createHttpServer, METHODS } from './node-http.ts';
import type { App } from './operation.ts';
import { rewriteUrl } from './request-checks.ts';
import { schemaController } from './validation.ts';

export interface ServerOptions extends AppConfig {
  store: AppStore;
  metrics: Metrics;
  now: () => Date;
  draining: () => boolean;
  logger: FastifyBaseLogger;
}

/** Creates the server, without routes. `onEnd` is called for a request that reaches no route. */
export function createServer(options: ServerOptions, onEnd: OnEnd) {
  const { store, logger, metrics, now, draining, ...config } = options;
  const limits = { ...standard, ...config.limits };
  const isProxy = config.trustProxy ? inNetworks(config.trustProxy) : undefined;
  const onClientError = createClientErrorHandler(onEnd);
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
    clientErrorHandler: onClientError,
    serverFactory(serve) {
      const server = createHttpServer(
        {
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
        },
        (request, response) => {
          if (!isServed(request.socket)) return;
          // The parser also takes RTSP, for whose methods Fastify's router would log all routes.
          if (methods.has(request.method as string)) serve(request, response);
          else onClientError(new Error('RTSP'), request.socket);
        },
      );
      server.maxHeadersCount = maxHeaders;
      server.timeout = limits.silenceMs;
      // A client that has closed only its sending side still expects its response. Node's types lack this property.
      (server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true;
      // By itself, Node would send 100 before any hook has checked the API key, and 417 without a body for other expectations.
      for (const event of ['checkContinue', 'checkExpectation'])
        server.on(event, (request, response) => void server.emit('request', request, response));
      return server;
    },
  });
  app.decorate('store', store);
  app.decorate('config', { ...config, base: config.baseUrl ?? '/v1', limits });
  app.decorate('isProxy', isProxy);
  app.decorate('metrics', metrics);
  app.decorate('now', now);
  app.decorate('draining', draining);
  app.decorateRequest('bodyMs', 0);
  app.decorateRequest('errorCode', undefined);
  metrics.watch(() => store.measure());
  return app;
}
