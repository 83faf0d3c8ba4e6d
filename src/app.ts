/** Builds the HTTP server: what every connection and every request meets, then the table of routes. */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { keys as accountKeys } from './account/keys.ts';
import type { Cost } from './account/passwords.ts';
import { createAccountScope, noPage, requireSession, type SignUp } from './account/scope.ts';
import { settings } from './account/settings.ts';
import { signIn } from './account/sign-in.ts';
import { oneTimeLink, signUp } from './account/sign-up.ts';
import { createTrail, type RecordEvent } from './account/trail.ts';
import type { Accounts } from './core/accounts.ts';
import { sunset } from './core/deprecation.ts';
import type { Messages } from './core/messages.ts';
import type { People } from './core/people.ts';
import type { Pets } from './core/pets.ts';
import { documentRoutes, referencePageRoutes } from './docs/routes.ts';
import { proxiesOf } from './http/addresses.ts';
import { createKeyCache, holderOfKey, installAuth, type KeyCache } from './http/auth.ts';
import { installBody } from './http/body.ts';
import { createAdmission, type HolderOf } from './http/connection/admission.ts';
import { installClientErrors, type Sending, writeError } from './http/connection/client-errors.ts';
import { type Connections, installConnections } from './http/connection/connections.ts';
import { installOverload } from './http/connection/overload.ts';
import { servePipelined } from './http/connection/pipelining.ts';
import { createCorsHeaders, installPreflight } from './http/cors.ts';
import {
  createErrorLog,
  createErrorSender,
  installErrors,
  type LogError,
  type NotFound,
  type SendError,
} from './http/errors.ts';
import type { Exchanges } from './http/exchange.ts';
import { tooMany } from './http/exchange-places.ts';
import type { ServesHost } from './http/hosts.ts';
import { createKeyUsage, type KeyUsage } from './http/key-usage.ts';
import { createAccountLimit, createRefusals, installRateLimits, type Limits, watchEventLoop } from './http/limits.ts';
import { installMethods, refuseOtherMethods } from './http/methods.ts';
import type { Metrics } from './http/metrics.ts';
import { createNotFound, refuseEmptyParameter, refuseUnknownOptions } from './http/not-found.ts';
import type { App } from './http/operation.ts';
import { installPreconditions } from './http/preconditions.ts';
import { createCheck } from './http/request-checks.ts';
import type { OnEnd } from './http/request-log.ts';
import { installResponses } from './http/responses.ts';
import { createServer } from './http/server.ts';
import type { Sources } from './http/state-metrics.ts';
import { installValidation } from './http/validation.ts';
import { sendMessage } from './messages/routes.ts';
import { listOrders } from './orders/routes.ts';
import { createPetResponses, type PetResponses } from './pets/response-cache.ts';
import { createPet, getPet, listPets } from './pets/routes.ts';

export interface AppOptions {
  store: {
    pets: Pets;
    accounts: Accounts;
    messages: Messages;
    people: People;
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
  /** Who can create an account on the account pages. */
  signUp: SignUp;
  /** The cost of password hashes. Default: what OWASP recommends. */
  passwordCost?: Cost;
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

/** The options, and what is made from them. */
interface Parts extends AppOptions {
  /** The start of the URLs in responses: the public base address, or its path. Ends in /v1. */
  base: string;
  sending: Sending;
  logError: LogError;
  sendError: SendError;
  notFound: NotFound;
  record: RecordEvent;
  usage: KeyUsage;
  /** Whether getPet has been removed. */
  removed: () => boolean;
  responses: PetResponses;
  exchanges: Exchanges;
  keys: KeyCache;
}

/** Builds the server. It does not listen yet. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { store, logger, metrics, now } = options;
  const base = options.baseUrl ?? '/v1';
  const logError = createErrorLog(logger);
  const sendError = createErrorSender(logError);
  const isProxy = proxiesOf(options.trustProxy ?? []);
  const sending: Sending = {
    corsHeaders: createCorsHeaders(options.corsOrigins),
    onEnd(exchange) {
      options.logRequest(exchange);
      metrics.request(exchange);
      usage.count(exchange);
    },
  };
  const { app, exchanges } = createServer({
    limits: options.limits,
    metrics,
    sending,
    logError,
    sendError,
    trustProxy: options.trustProxy && isProxy,
  });
  await options.watch?.(app);
  const usage = createKeyUsage(app, { accounts: store.accounts, metrics, logger, now });
  const parts: Parts = {
    ...options,
    base,
    sending,
    logError,
    sendError,
    exchanges,
    keys: createKeyCache(app),
    notFound: createNotFound(base),
    record: createTrail(logger, metrics),
    usage,
    removed: () => options.enforceSunset && now().getTime() >= sunset.getTime(),
    responses: createPetResponses(app, store.pets, base),
  };
  const charge = limitConnections(app, parts, isProxy);
  await installHooks(app, parts);
  await addRoutes(app, parts, createKeyRequirement(app, parts, charge));
  return app;
}

/** What every connection meets. Returns the function that charges a connection to an account. */
function limitConnections(app: App, parts: Parts, isProxy: (address: string) => boolean): Connections['charge'] {
  const { draining, exchanges, keys, limits: given, metrics, responses, sending, store } = parts;
  const connections = installConnections(app.server, {
    maxConnections: given.maxConnections,
    isProxy,
    refuse(socket) {
      metrics.limited('connections');
      writeError(socket, tooMany, sending);
    },
    onClose: exchanges.endOf,
  });
  const onTurn = () => store.pets.refresh?.();
  const keyOf = (authorization = '') =>
    keys.lastValid(authorization) ?? keys.lastValid(authorization.replace(/^bearer +/i, 'Bearer '));
  const holderOf: HolderOf = (authorization) => {
    const key = keyOf(authorization);
    return key && holderOfKey(key);
  };
  installOverload(app.server, {
    admission: createAdmission(holderOf),
    isBlocked: watchEventLoop(app),
    ...{ keyOf, draining, isProxy, onTurn, sending, error: tooMany },
    onRefused: () => metrics.limited('event_loop'),
  });
  const pipelined = servePipelined(app.server, connections.claimantOf, onTurn);
  installClientErrors(app.server, sending);
  metrics.watch({
    store: () => store.measure(),
    pages: responses.use,
    taken: () => ({ ...exchanges.taken(), connections: connections.count(), pipelined: pipelined() }),
  });
  return connections.charge;
}

/** What every request meets, in this order. */
async function installHooks(app: App, parts: Parts): Promise<void> {
  const { corsOrigins, draining, exchanges, notFound, sendError, servesHost } = parts;
  installMethods(app);
  const check = createCheck(servesHost);
  app.addHook('onRequest', (request, reply, done) => {
    const exchange = exchanges.begin(request, reply);
    if (draining()) {
      reply.header('connection', 'close');
      exchange.headersSet = true;
    }
    done(check(request.raw));
  });
  // Before the plugins: their routes use the error handler that is set when they are added.
  installErrors(app, sendError, notFound);
  await installRateLimits(app);
  if (corsOrigins) {
    refuseUnknownOptions(app, notFound);
    await installPreflight(app, corsOrigins);
  }
  installResponses(app);
  installBody(app, exchanges, notFound);
  installValidation(app);
  installPreconditions(app);
}

/** Makes a scope require an API key. */
type RequireKey = (scope: App) => Promise<void>;

function createKeyRequirement(app: App, parts: Parts, charge: Connections['charge']): RequireKey {
  const { exchanges, keys, limits: given, live, metrics, now, sendError, store } = parts;
  const limitAccounts = createAccountLimit(app, given, metrics);
  const auth = {
    accounts: store.accounts,
    live,
    now,
    exchanges,
    charge,
    sendError,
    cache: keys,
    refusals: createRefusals(app, given, metrics),
  };
  return async (scope) => {
    await installAuth(scope, auth);
    if (limitAccounts) scope.addHook('onRequest', limitAccounts);
  };
}

/** The table of routes: first those without a key, then /v1 and the quickstart, each behind its key. */
async function addRoutes(app: App, parts: Parts, requireKey: RequireKey): Promise<void> {
  const { base, documents, exchanges, notFound, quickstartBasePath } = parts;
  const { readPageFile: readFile } = parts;
  const root = base.slice(0, -'/v1'.length);
  const accountPages = parts.signUp !== 'none';
  // GET /openapi.json and /openapi.yaml
  documentRoutes(app, { document: documents.animalStore, base, accountPages, exchanges });
  // GET /, /docs and the files below /docs/; /docs/ and /account/ lead to the pages
  referencePageRoutes(app, { readFile, root, quickstartBasePath, accountPages, exchanges, notFound });

  if (accountPages) {
    await app.register((account: App) => addAccountRoutes(account, parts), { prefix: '/account' });
  }

  // Outside the scope of /v1: an unknown path needs no key.
  refuseEmptyParameter(app, '/v1/pets/', notFound);
  const v1 = async (scope: App) => {
    await requireKey(scope);
    addApiRoutes(scope, parts);
  };
  await app.register(v1, { prefix: '/v1' });

  const quickstart = async (scope: App) => {
    documentRoutes(scope, { document: documents.quickstart, base: root + quickstartBasePath, accountPages, exchanges });
    await scope.register(async (keyed: App) => {
      await requireKey(keyed);
      sendMessage(keyed, '/messages', { ...parts, messages: parts.store.messages });
      refuseOtherMethods(keyed);
    });
  };
  if (quickstartBasePath !== undefined) await app.register(quickstart, { prefix: quickstartBasePath });
}

/** Below /account. */
async function addAccountRoutes(app: App, parts: Parts): Promise<void> {
  const { accounts, people } = parts.store;
  const scope = await createAccountScope(app, { ...parts, accounts, people, readFile: parts.readPageFile });
  signUp(app, scope);
  signIn(app, scope);
  oneTimeLink(app, scope);
  for (const url of ['/links/', '/keys/']) refuseEmptyParameter(app, url, noPage);
  await app.register(async (own: App) => {
    requireSession(own, scope);
    accountKeys(own, scope);
    settings(own, scope);
  });
}

/** Below /v1. */
function addApiRoutes(app: App, { base, exchanges, removed, responses, store, usage }: Parts): void {
  const pets = { pets: store.pets, exchanges, responses, usage, base, removed };
  listPets(app, '/pets', pets);
  createPet(app, '/pets', pets);
  getPet(app, '/pets/:petId', pets);
  listOrders(app, '/store/orders');
  refuseOtherMethods(app);
}
