/** Builds the HTTP server: the hooks of every request, then the public routes, then the routes that need an API key. */
import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import fastify, { type FastifyBaseLogger, type FastifyHttpOptions, type FastifyInstance } from 'fastify';
import { keys } from './account/keys.ts';
import { accountFileRoutes } from './account/pages.ts';
import { installAccountPages, noPage, requireSession } from './account/parts.ts';
import { oneTimeLink, type SignUp, settings, signIn, signOut, signUp } from './account/routes.ts';
import { createTrail } from './account/trail.ts';
import type { Accounts } from './core/accounts.ts';
import { sunset } from './core/deprecation.ts';
import { limits } from './core/limits.ts';
import type { Messages } from './core/messages.ts';
import type { People, Trail } from './core/people.ts';
import type { Pets } from './core/pets.ts';
import { documentRoutes, referencePageRoutes } from './docs/routes.ts';
import { proxiesOf } from './http/addresses.ts';
import { createKeyCache, installAuth } from './http/auth.ts';
import { installBody } from './http/body.ts';
import { answerError, installClientErrors, refuseConnection, writeError } from './http/connection/client-errors.ts';
import { installConnections } from './http/connection/connections.ts';
import { servePipelined } from './http/connection/pipelining.ts';
import { createCorsHeaders, installPreflight } from './http/cors.ts';
import { createErrorLog, createErrorSender, installErrors, toApiError } from './http/errors.ts';
import { createExchanges, type Exchanges, late, tooMany } from './http/exchange.ts';
import type { ServesHost } from './http/hosts.ts';
import { createKeyUsage } from './http/key-usage.ts';
import { createAccountLimit, createRefusals, installRateLimits, type Limits, watchEventLoop } from './http/limits.ts';
import { installMethods, refuseOtherMethods } from './http/methods.ts';
import type { Metrics } from './http/metrics.ts';
import { createNotFound, refuseEmptyParameter, refuseUnknownOptions } from './http/not-found.ts';
import type { App } from './http/operation.ts';
import { createCheck } from './http/request-checks.ts';
import type { OnEnd } from './http/request-log.ts';
import { installResponses } from './http/responses.ts';
import type { Sources } from './http/state-metrics.ts';
import { installValidation } from './http/validation.ts';
import { sendMessage } from './messages/routes.ts';
import { listOrders } from './orders/routes.ts';
import { createPetResponses } from './pets/response-cache.ts';
import { createPet, getPet, listPets } from './pets/routes.ts';

export interface AppOptions {
  store: {
    pets: Pets;
    accounts: Accounts;
    messages: Messages;
    people: People;
    trail: Trail;
    measure: Sources['store'];
  };
  logger: FastifyBaseLogger;
  /** Writes the log line of a request. */
  logRequest: OnEnd;
  metrics: Metrics;
  now: () => Date;
  /** True in production, whose API keys start with `ast_live_`. */
  live: boolean;
  /** Public base address, ending in /v1. If undefined, URLs in responses are absolute paths. */
  baseUrl?: string | undefined;
  /** Who can create an account on the account pages. If undefined, the pages are not served. */
  signUp?: SignUp | undefined;
  /** Path of the messages quickstart. If undefined, it is not served. */
  quickstartBasePath?: string | undefined;
  /** Whether getPet returns 410 from its sunset date on. */
  enforceSunset: boolean;
  limits: Limits;
  /** Addresses and networks of the proxies whose X-Forwarded-For header is trusted. */
  trustProxy?: string[] | undefined;
  /** The hosts that requests may name. If undefined, any. */
  servesHost?: ServesHost | undefined;
  /** Origins whose pages may call the API from a browser. If undefined, none may. */
  corsOrigins?: string[] | undefined;
  /** True while the process is about to stop. Responses then carry Connection: close, so that clients reconnect elsewhere. */
  draining: () => boolean;
  /** The committed OpenAPI documents, as YAML. */
  documents: { animalStore: string; quickstart: string };
  /** Reads a file of src/pages/. */
  readPageFile: (name: string) => Promise<Buffer>;
  /** Called before any route is registered, for plugins that must see every route. */
  watch?: (app: FastifyInstance) => Promise<void>;
}

const serverOptions: FastifyHttpOptions<Server> = {
  bodyLimit: limits.bodyBytes,
  requestTimeout: limits.request,
  keepAliveTimeout: limits.keepAlive,
  return503OnClosing: false,
  // With a logger, Fastify adds two listeners to each response. http/request-log.ts writes the request lines instead.
  logger: false,
  genReqId: () => randomUUID(),
  // A path parameter may be as long as the URL. Validation decides whether it is a number.
  routerOptions: { maxParamLength: limits.headerBytes },
  // http/request-checks.ts rejects a missing or repeated Host header, so that the response has the standard error body.
  http: {
    maxHeaderSize: limits.headerBytes,
    requireHostHeader: false,
    joinDuplicateHeaders: true,
    connectionsCheckingInterval: 500,
    // Saves a tenth of a read. The stream of a request without a body emits no event: http/body.ts replaces it before a body is read.
    optimizeEmptyRequests: true,
  },
};

/** Builds the server. It does not listen yet. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const {
    store,
    logger,
    metrics,
    limits: given,
    now,
    live,
    baseUrl,
    quickstartBasePath,
    corsOrigins,
    draining,
    documents,
  } = options;
  const onEnd: OnEnd = (exchange) => {
    options.logRequest(exchange);
    metrics.request(exchange);
  };
  const corsHeaders = createCorsHeaders(corsOrigins);
  const sending = { onEnd, corsHeaders };
  const logError = createErrorLog(logger);
  const sendError = createErrorSender(logError);
  const isProxy = proxiesOf(options.trustProxy ?? []);
  let exchanges: Exchanges;
  const app: App = fastify({
    ...serverOptions,
    ...(options.trustProxy && { trustProxy: isProxy }),
    // The router could not decode the URL. No hook runs for such a request.
    frameworkErrors(error, request, reply) {
      exchanges.begin(request, reply).code = toApiError(error).code;
      sendError(error, request, reply);
    },
    clientErrorHandler: (error, socket) => refuseConnection(error, socket, sending),
  });
  await options.watch?.(app);
  const base = baseUrl ?? '/v1';
  const removed = () => options.enforceSunset && now().getTime() >= sunset.getTime();
  const record = createTrail(app, { trail: store.trail, logger, metrics });
  const usage = createKeyUsage(app, { accounts: store.accounts, metrics, logger, now });
  const responses = createPetResponses(app, store.pets, base);
  const { maxInFlight, maxConnections } = given;
  exchanges = createExchanges(app, {
    maxInFlight,
    pluginHeaders: given.requestsPerMinute !== undefined,
    corsHeaders,
    onEnd,
    onRefused: () => metrics.limited('in_flight'),
    refuseLate(response, exchange) {
      logError(late, { exchange, id: exchange.reqId });
      answerError(response, late, sending);
    },
  });

  const connections = installConnections(app.server, {
    maxConnections,
    isProxy,
    refuse(socket) {
      metrics.limited('connections');
      writeError(socket, tooMany, sending);
    },
    onClose: exchanges.endOf,
  });
  const pipelined = servePipelined(app.server, connections.claimantOf, () => store.pets.refresh?.());
  installClientErrors(app.server, sending);
  const taken = () => ({ ...exchanges.taken(), connections: connections.count(), pipelined: pipelined() });
  metrics.watch({ store: () => store.measure(), pages: responses.use, taken });

  installMethods(app);
  const isBlocked = watchEventLoop(app);
  const check = createCheck(options.servesHost);
  app.addHook('onRequest', (request, reply, done) => {
    const exchange = exchanges.begin(request, reply);
    if (draining()) {
      reply.header('connection', 'close');
      exchange.headersSet = true;
    }
    if (!isBlocked()) return done(check(request.raw));
    metrics.limited('event_loop');
    done(tooMany);
  });
  const notFound = createNotFound(base);
  // Before the plugins: their routes use the error handler that is set when they are added.
  installErrors(app, sendError, notFound);
  await installRateLimits(app);
  if (corsOrigins) {
    refuseUnknownOptions(app, notFound);
    await installPreflight(app, corsOrigins);
  }
  installResponses(app);
  const limitAccounts = createAccountLimit(app, given, metrics);
  installBody(app, exchanges, notFound);
  installValidation(app);
  const auth = {
    accounts: store.accounts,
    live,
    now,
    usage,
    exchanges,
    cache: createKeyCache(app),
    refusals: createRefusals(app, given, metrics),
    charge: connections.charge,
    sendError,
  };

  // The table of routes: first those without a key, then /v1 and the quickstart, each behind its key.
  const root = base.slice(0, -'/v1'.length);
  const accountPages = options.signUp !== undefined;
  // GET /openapi.json and /openapi.yaml
  documentRoutes(app, { document: documents.animalStore, base, accountPages, exchanges });
  // GET /, /docs and the files below /docs/
  referencePageRoutes(app, {
    readFile: options.readPageFile,
    root,
    quickstartBasePath,
    accountPages,
    exchanges,
    notFound,
  });

  const { signUp: whoSignsUp, readPageFile: readFile } = options;
  if (whoSignsUp !== undefined) {
    // GET /account/account.css and /account/account.js
    accountFileRoutes(app, { readFile, exchanges });
    const { accounts, people } = store;
    const given = { accounts, people, record, exchanges, sendError, logError, logger, now, live, baseUrl, readFile };
    await app.register(
      async (account: App) => {
        const parts = await installAccountPages(account, { ...given, signUp: whoSignsUp });
        signUp(account, '/sign-up', parts);
        signIn(account, '/sign-in', parts);
        signOut(account, '/sign-out', parts);
        oneTimeLink(account, '/links/:token', parts);
        refuseEmptyParameter(account, '/links/', noPage);
        await account.register(async (own: App) => {
          requireSession(own, parts);
          keys(own, parts);
          settings(own, parts);
        });
      },
      { prefix: '/account' },
    );
  }

  // Outside the scope of /v1: an unknown path needs no key.
  refuseEmptyParameter(app, '/v1/pets/', notFound);
  await app.register(
    async (v1: App) => {
      await installAuth(v1, auth);
      if (limitAccounts) v1.addHook('onRequest', limitAccounts);
      const pets = { pets: store.pets, exchanges, responses, usage, base, removed };
      listPets(v1, '/pets', pets);
      createPet(v1, '/pets', pets);
      getPet(v1, '/pets/:petId', pets);
      listOrders(v1, '/store/orders');
      refuseOtherMethods(v1);
    },
    { prefix: '/v1' },
  );

  if (quickstartBasePath !== undefined) {
    await app.register(
      async (quickstart: App) => {
        const own = { document: documents.quickstart, base: root + quickstartBasePath };
        documentRoutes(quickstart, { ...own, accountPages, exchanges });
        await quickstart.register(async (keyed: App) => {
          await installAuth(keyed, auth);
          if (limitAccounts) keyed.addHook('onRequest', limitAccounts);
          sendMessage(keyed, '/messages', { messages: store.messages, exchanges, sendError, now });
          refuseOtherMethods(keyed);
        });
      },
      { prefix: quickstartBasePath },
    );
  }
  return app;
}
