/** The server, read from top to bottom: what every request meets, the public surface, then what needs a key. */
import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import fastify, { type FastifyBaseLogger, type FastifyHttpOptions, type FastifyInstance } from 'fastify';
import type { Accounts } from './accounts.ts';
import { createKeyCache, installAuth } from './http/auth.ts';
import { installBody } from './http/body.ts';
import { installClientErrors, refuseConnection, writeError } from './http/connection/client-errors.ts';
import { installConnections } from './http/connection/connections.ts';
import { servePipelined } from './http/connection/pipelining.ts';
import { installCors } from './http/cors.ts';
import { sunset } from './http/deprecation.ts';
import { createErrorSender, installErrors, toApiError } from './http/errors.ts';
import { createExchanges, type Exchanges, tooMany } from './http/exchange.ts';
import { createKeyUsage } from './http/key-usage.ts';
import { createKeyLimit, createRefusalCounter, installRateLimits, type Limits, watchEventLoop } from './http/limits.ts';
import { installMethods } from './http/methods.ts';
import type { Metrics, Sources } from './http/metrics.ts';
import type { App } from './http/operation.ts';
import { check } from './http/request-checks.ts';
import type { Observe } from './http/request-log.ts';
import { createPetResponses } from './http/response-cache.ts';
import { installResponses } from './http/responses.ts';
import { documentRoutes, referencePageRoutes } from './http/routes/docs.ts';
import { messageRoutes } from './http/routes/messages.ts';
import { orderRoutes } from './http/routes/orders.ts';
import { petRoutes } from './http/routes/pets.ts';
import { installValidation } from './http/validation.ts';
import type { Messages } from './messages.ts';
import type { Pets } from './pets.ts';

export interface AppOptions {
  store: { pets: Pets; accounts: Accounts; messages: Messages; measure: Sources['store'] };
  logger: FastifyBaseLogger;
  /** Writes the line of a request. */
  logRequest: Observe;
  metrics: Metrics;
  now: () => Date;
  /** Whether this is production. */
  live: boolean;
  /** Public base address, ending in /v1; without it addresses in answers are absolute paths. */
  baseUrl?: string | undefined;
  /** Path of the messages quickstart; undefined serves none. */
  quickstartBasePath?: string | undefined;
  /** Whether getPet ends at its sunset. */
  enforceSunset: boolean;
  limits: Limits;
  /** Addresses and networks of proxies whose X-Forwarded-For is believed. */
  trustProxy?: string[] | undefined;
  /** Origins whose pages may call the interface; undefined: none. */
  corsOrigins?: string[] | undefined;
  /** Whether clients are asked, by Connection: close, to go elsewhere, as the process is about to stop. */
  draining: () => boolean;
  /** The committed OpenAPI documents, as YAML. */
  documents: { animalStore: string; quickstart: string };
  /** Reads a file of the reference page. */
  readPageFile: (name: string) => Promise<Buffer>;
  /** Called on the bare server before any route exists: for tools that watch routes being registered. */
  watch?: (app: FastifyInstance) => Promise<void>;
}

const bodyLimitBytes = 64 * 1024;
const requestTimeoutMs = 9000;
const keepAliveTimeoutMs = 72_000;

const serverOptions: FastifyHttpOptions<Server> = {
  bodyLimit: bodyLimitBytes,
  requestTimeout: requestTimeoutMs,
  keepAliveTimeout: keepAliveTimeoutMs,
  return503OnClosing: false,
  // With a logger, Fastify adds two listeners to each response. Our own logger writes all lines.
  logger: false,
  genReqId: () => randomUUID(),
  // A path parameter may be as long as a URL: whether it is a number is for validation to say.
  routerOptions: { maxParamLength: 16 * 1024 },
  // A request without Host, and one with several, is answered in our own shape (http/request-checks.ts).
  http: {
    requireHostHeader: false,
    joinDuplicateHeaders: true,
    connectionsCheckingInterval: 500,
    optimizeEmptyRequests: true,
  },
};

/** Builds the server; nothing listens yet. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { store, logger, metrics, limits, now, live, baseUrl, quickstartBasePath, corsOrigins, draining, documents } =
    options;
  const observe: Observe = (answered) => {
    options.logRequest(answered);
    metrics.request(answered);
  };
  const sendError = createErrorSender(logger);
  let exchanges: Exchanges;
  const app: App = fastify({
    ...serverOptions,
    ...(options.trustProxy && { trustProxy: options.trustProxy }),
    // A URL that the router cannot read: no hook runs.
    frameworkErrors(error, request, reply) {
      exchanges.begin(request, reply).code = toApiError(error).code;
      sendError(error, request, reply);
    },
    clientErrorHandler: (error, socket) => refuseConnection(error, socket, observe),
  });
  await options.watch?.(app);
  const base = baseUrl ?? '/v1';
  const removed = () => options.enforceSunset && now().getTime() >= sunset.getTime();
  const usage = createKeyUsage(app, { accounts: store.accounts, metrics, logger, now });
  const responses = createPetResponses(app, store.pets, base);
  const { maxInFlight, maxConnections } = limits;
  exchanges = createExchanges(app, {
    maxInFlight,
    pluginHeaders: corsOrigins !== undefined || limits.requestsPerMinute !== undefined,
    observe,
    onRefused: () => metrics.limited('in_flight'),
  });

  const connections = installConnections(app.server, {
    maxConnections,
    trustProxy: options.trustProxy ?? [],
    refuse(socket) {
      metrics.limited('connections');
      writeError(socket, tooMany, observe);
    },
  });
  const pipelined = servePipelined(app.server, () => store.pets.refresh?.());
  installClientErrors(app.server, observe);
  const held = () => ({ ...exchanges.held(), connections: connections(), pipelined: pipelined() });
  metrics.watch({ store: () => store.measure(), pages: responses.use, held });

  installMethods(app);
  const standsStill = watchEventLoop(app);
  app.addHook('onRequest', (request, reply, done) => {
    const exchange = exchanges.begin(request, reply);
    if (draining()) {
      reply.header('connection', 'close');
      exchange.headersSet = true;
    }
    if (!standsStill()) return done(check(request.raw));
    /* v8 ignore next 2 -- the process of the tests would stand still for seconds */
    metrics.limited('event_loop');
    done(tooMany);
  });
  await installRateLimits(app);
  if (corsOrigins) await installCors(app, corsOrigins);
  installErrors(app, sendError);
  installResponses(app);
  const limitKeys = createKeyLimit(app, limits, metrics);
  installBody(app, exchanges);
  installValidation(app);
  const auth = {
    accounts: store.accounts,
    live,
    now,
    usage,
    cache: createKeyCache(app),
    countRefusal: createRefusalCounter(app, limits, metrics),
    sendError,
  };

  const root = base.slice(0, -'/v1'.length);
  documentRoutes(app, { document: documents.animalStore, base, exchanges });
  referencePageRoutes(app, { readFile: options.readPageFile, root, quickstartBasePath, exchanges });

  await app.register(
    async (v1: App) => {
      await installAuth(v1, auth);
      if (limitKeys) v1.addHook('onRequest', limitKeys);
      petRoutes(v1, { pets: store.pets, exchanges, responses, usage, base, removed });
      orderRoutes(v1);
    },
    { prefix: '/v1' },
  );

  if (quickstartBasePath !== undefined) {
    await app.register(
      async (quickstart: App) => {
        documentRoutes(quickstart, { document: documents.quickstart, base: root + quickstartBasePath, exchanges });
        await quickstart.register(async (keyed: App) => {
          await installAuth(keyed, auth);
          if (limitKeys) keyed.addHook('onRequest', limitKeys);
          messageRoutes(keyed, { messages: store.messages, exchanges, sendError, now });
        });
      },
      { prefix: quickstartBasePath },
    );
  }
  return app;
}
