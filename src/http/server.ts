/** Creates the Fastify server: its connections, the order in which their requests are served, and what plugins find on it. */
import type { RequestListener } from 'node:http';
import fastify, { type FastifyInstance } from 'fastify';
import { sunset } from '../core/deprecation.ts';
import { ApiError } from '../core/errors.ts';
import { limits, maxHeaders } from '../core/limits.ts';
import { createKeyCache } from './auth.ts';
import { createClientErrors } from './connection/client-errors.ts';
import { installConnections } from './connection/connections.ts';
import { createTurns } from './connection/turns.ts';
import { createCorsLines } from './cors.ts';
import type { AppConfig } from './decorations.ts';
import { logError, sendError } from './errors.ts';
import { createKeyUsage } from './key-usage.ts';
import { inNetworks } from './networks.ts';
import { createServer as createHttpServer, METHODS } from './node-http.ts';
import type { App } from './operation.ts';
import { beginRequest, createCheck } from './request-checks.ts';
import type { OnEnd } from './request-record.ts';
import { createShares, holderOfAccount, tooMany } from './shares.ts';
import { schemaController } from './validation.ts';

export interface ServerOptions
  extends AppConfig,
    Pick<FastifyInstance, 'store' | 'logger' | 'metrics' | 'now' | 'draining'> {
  /** Writes the log line of a request. */
  logRequest: OnEnd;
}

/** Returns the lines of the headers that all responses of a path carry, also if a part of it cannot be decoded, so that it has no route. */
function watchHeaders(app: App): (url: string) => string {
  const known: { path: RegExp; headers: string }[] = [];
  app.addHook('onRoute', ({ url, config }) => {
    if (!config?.headers) return;
    known.push({
      path: new RegExp(`^(?:http://[^/?]+)?${url.replace(/:\w+/, '[^/?]+')}(?:\\?|$)`, 'i'),
      headers: config.headers,
    });
  });
  return (url) => known.find(({ path }) => path.test(url))?.headers ?? '';
}

const otherProtocol = new ApiError('bad_request');

/** Creates the server, without routes. Its connections have one request at a time, and its turns as many as they have time for. */
export function createServer(options: ServerOptions): App {
  const { store, logger, metrics, now, draining, logRequest, ...config } = options;
  const isProxy = inNetworks(config.trustProxy ?? []);
  const keys = createKeyCache();
  const shares = createShares(() => metrics.limited('in_flight'));
  const usage = createKeyUsage(store.accounts, logger, now);
  const corsLines = createCorsLines(config.corsOrigins);
  const onEnd: OnEnd = (record) => {
    logRequest(record);
    metrics.request(record);
    usage.count(record);
  };
  const { answerError, writeError, ...clientErrors } = createClientErrors({
    linesOfPath: (url = '') => headersOfPath(url),
    ...{ corsLines, onEnd },
  });
  const server = createHttpServer({
    maxHeaderSize: limits.headerBytes,
    // Also of the headers alone, by Node's default for headersTimeout: the same, and at most a minute.
    requestTimeout: limits.request,
    keepAliveTimeout: limits.keepAlive,
    // request-checks.ts rejects a missing or repeated Host header, so that the response has the standard error body.
    requireHostHeader: false,
    joinDuplicateHeaders: true,
    connectionsCheckingInterval: 500,
    // Saves a tenth of a read. The stream of a request without a body emits no event: body.ts replaces it before a body is read.
    optimizeEmptyRequests: true,
  });
  server.maxHeadersCount = maxHeaders;
  const methods = new Set(METHODS);
  const handle: RequestListener = (request, response) => {
    // The parser knows those of RTSP, too, for which the router has no answer.
    if (methods.has(request.method as string)) app.routing(request, response);
    else answerError(response, otherProtocol);
  };
  const turns = createTurns(handle, {
    shares,
    holderOf({ headers, record }) {
      const key = keys.find(headers.authorization)?.key;
      return key ? holderOfAccount(key.accountId, key.network) : record.holder;
    },
    refuse(response, closes) {
      const { headers, record } = response.req;
      record.key = keys.find(headers.authorization)?.key.id;
      metrics.limited('event_loop');
      answerError(response, tooMany, closes || draining());
    },
  });
  const connections = installConnections(server, {
    ...{ shares, isProxy, onEnd, serve: turns.serve },
    // While the process stops, no request may be left unread.
    readLater: (connection) => !draining() && turns.readLater(connection),
    maxConnections: config.maxConnections,
    refuse(socket) {
      metrics.limited('connections');
      writeError(socket, tooMany);
    },
    refuseLate(response, error) {
      logError(error, response.req.record, logger);
      answerError(response, error);
    },
  });
  clientErrors.install(server);

  const app: App = fastify({
    serverFactory: () => server,
    schemaController,
    bodyLimit: limits.bodyBytes,
    genReqId: ({ record }) => record.reqId,
    // A path parameter may be as long as the URL. Validation decides whether it is a number.
    routerOptions: { maxParamLength: limits.headerBytes },
    ...(config.trustProxy && { trustProxy: isProxy }),
    frameworkErrors(error, request, reply) {
      const fault = beginRequest(request, reply);
      request.ownHeaders += headersOfPath(request.url);
      sendError(fault ?? error, request, reply);
    },
    clientErrorHandler: clientErrors.refuseConnection,
  });
  const headersOfPath = watchHeaders(app);
  const decorations = {
    ...{ store, config, metrics, logger, now, draining, shares, keys, corsLines },
    base: config.baseUrl ?? '/v1',
    removed: () => config.enforceSunset && now().getTime() >= sunset.getTime(),
    checkRequest: createCheck(config.servesHost),
    pause: turns.pause,
    resume: turns.resume,
    closeIdle: connections.closeIdle,
  } satisfies Partial<FastifyInstance>;
  for (const [name, value] of Object.entries(decorations)) app.decorate<unknown>(name, value);
  app.addHook('onClose', async () => {
    shares.close();
    connections.close();
    await usage.close();
  });
  metrics.watch(
    () => store.measure(),
    () => {
      const { work, bodies, pipelined, unreadBytes } = shares.taken();
      return { ...connections.count(), work, bodies, pipelined, unread_bytes: unreadBytes };
    },
  );
  return app;
}
