/** The server, read from top to bottom: what every request meets, the public surface, then what needs a key. */
import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import fastify, { type FastifyBaseLogger, type FastifyHttpOptions, type FastifyInstance, LogController } from 'fastify';
import type { Accounts } from './accounts.ts';
import type { App } from './http/app-type.ts';
import { installAuth } from './http/auth.ts';
import { installContent } from './http/content.ts';
import { installCors } from './http/cors.ts';
import { sunset } from './http/deprecation.ts';
import { installErrors, sendFrameworkFailure } from './http/errors.ts';
import { installFront } from './http/front.ts';
import { createKeyUses } from './http/key-uses.ts';
import { createKeyring } from './http/keyring.ts';
import {
  createKeyLimit,
  createRefusalCounter,
  installLoadShedding,
  installRateLimits,
  type Limits,
} from './http/limits.ts';
import { messageRoutes } from './http/messages.ts';
import { installMethods } from './http/methods.ts';
import type { Metrics, Sources } from './http/metrics.ts';
import { orderRoutes } from './http/orders.ts';
import { createPetAnswers } from './http/pet-answers.ts';
import { petRoutes } from './http/pets.ts';
import { servePlainReads } from './http/plain-reads.ts';
import { referenceRoutes } from './http/reference.ts';
import { referencePageRoutes } from './http/reference-page.ts';
import { createRequestLog, type Observe, observeRequests } from './http/request-log.ts';
import { installSocketAnswers, refuseConnection } from './http/socket.ts';
import { installValidation } from './http/validation.ts';
import type { Messages } from './messages.ts';
import type { Pets } from './pets.ts';

export interface AppOptions {
  store: { pets: Pets; accounts: Accounts; messages: Messages; measure: Sources['store'] };
  logger: FastifyBaseLogger;
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
  // http/request-log.ts writes one line per request, and needs no logger of its own for each.
  logController: new LogController({ disableRequestLogging: true }),
  childLoggerFactory: (logger) => logger,
  genReqId: () => randomUUID(),
  // A path parameter may be as long as a URL: whether it is a number is for validation to say.
  routerOptions: { maxParamLength: 16 * 1024 },
  // A request without Host, and one with several, is answered in our own shape (http/front.ts).
  http: { requireHostHeader: false, joinDuplicateHeaders: true, connectionsCheckingInterval: 500 },
};

/** Builds the server; nothing listens yet. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { store, metrics, limits, now, live, baseUrl, quickstartBasePath, corsOrigins, draining, documents } = options;
  const log = createRequestLog(options.logger);
  const observe: Observe = (answered) => {
    log(answered);
    metrics.request(answered);
  };
  const app: App = fastify({
    ...serverOptions,
    ...(options.trustProxy && { trustProxy: options.trustProxy }),
    loggerInstance: options.logger,
    frameworkErrors: sendFrameworkFailure(observe),
    clientErrorHandler: (error, socket) => refuseConnection(error, socket, observe),
  });
  await options.watch?.(app);
  const base = baseUrl ?? '/v1';
  const removed = () => options.enforceSunset && now() >= sunset;
  const uses = createKeyUses(app, store.accounts, metrics, now);

  const keyring = createKeyring(app);
  const answers = createPetAnswers(store.pets, base);

  metrics.watch({ store: () => store.measure(), pages: answers.use });
  // What is counted by key, or told to browsers, is left to the hooks below.
  if (limits.requestsPerMinute === undefined && corsOrigins === undefined) {
    servePlainReads(app, { answers, keyring, uses, observe, now, base, removed, draining });
  }
  installSocketAnswers(app.server, observe);
  installMethods(app);
  observeRequests(app, observe);
  installFront(app, draining);
  await installLoadShedding(app, limits, metrics);
  await installRateLimits(app);
  if (corsOrigins) await installCors(app, corsOrigins);
  installErrors(app);
  const limitKeys = createKeyLimit(app, limits, metrics);
  installContent(app);
  installValidation(app);
  const auth = {
    accounts: store.accounts,
    live,
    now,
    uses,
    keyring,
    countRefusal: createRefusalCounter(app, limits, metrics),
  };

  const root = base.slice(0, -'/v1'.length);
  referenceRoutes(app, { document: documents.animalStore, base });
  referencePageRoutes(app, { readFile: options.readPageFile, root, quickstartBasePath });

  await app.register(
    async (v1: App) => {
      await installAuth(v1, auth);
      if (limitKeys) v1.addHook('onRequest', limitKeys);
      petRoutes(v1, { pets: store.pets, answers, uses, base, removed });
      orderRoutes(v1);
    },
    { prefix: '/v1' },
  );

  if (quickstartBasePath !== undefined) {
    await app.register(
      async (quickstart: App) => {
        referenceRoutes(quickstart, { document: documents.quickstart, base: root + quickstartBasePath });
        await quickstart.register(async (keyed: App) => {
          await installAuth(keyed, auth);
          if (limitKeys) keyed.addHook('onRequest', limitKeys);
          messageRoutes(keyed, { messages: store.messages, now });
        });
      },
      { prefix: quickstartBasePath },
    );
  }
  return app;
}
