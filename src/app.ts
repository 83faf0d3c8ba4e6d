/** Builds the HTTP server: the plugins for every request, and then one line for each subject. */
import type { FastifyInstance } from 'fastify';
import { account } from './account/routes.ts';
import type { AccountOptions } from './account/scope.ts';
import { createNotFoundPage, type DocsOptions, docs } from './docs/routes.ts';
import { createKeyCache, requireKey } from './http/auth.ts';
import { addParser, bodies, parseJson } from './http/body.ts';
import { watchConnections } from './http/connections.ts';
import { cors } from './http/cors.ts';
import { fairness } from './http/fairness.ts';
import { responseHeaders } from './http/headers.ts';
import type { ServesHost } from './http/hosts.ts';
import { createKeyUsage } from './http/key-usage.ts';
import { endedRequest, type OnEnd } from './http/log.ts';
import { addRoutes, errorHandlers, refuseEmptyParameter } from './http/methods.ts';
import type { App } from './http/operation.ts';
import { preconditions } from './http/preconditions.ts';
import { prepareResponses } from './http/prepared.ts';
import { rateLimits } from './http/rate-limit.ts';
import { requestChecks } from './http/request-checks.ts';
import { sendResponse } from './http/responses.ts';
import { createServer, type ServerOptions } from './http/server.ts';
import { validation } from './http/validation.ts';
import { messages } from './messages/routes.ts';
import { orders } from './orders/routes.ts';
import { cacheReads } from './pets/response-cache.ts';
import { pets } from './pets/routes.ts';

export interface AppOptions extends ServerOptions, AccountOptions, DocsOptions {
  /** Writes the log line of a request. */
  logRequest: OnEnd;
  /** The hosts that requests may name. If undefined, any. */
  servesHost?: ServesHost | undefined;
  /** Called before any route is registered, for plugins that must see every route. */
  watch?: (app: FastifyInstance) => Promise<void>;
  /** Whether to do without prepared responses and the cache, for tests: responses are the same. */
  plain?: boolean;
}

/** Builds the server. It does not listen yet. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { logRequest, servesHost, watch, plain, readFile, passwordCost, ...server } = options;
  const { store, logger, metrics, now, quickstartBasePath, signUp } = options;
  const usage = createKeyUsage(store.accounts, logger, now);
  const keys = createKeyCache();
  const onEnd: OnEnd = (request) => {
    logRequest(request);
    metrics.request(request);
    usage.count(request);
  };
  const app = createServer(server, onEnd);
  if (plain) app.decorateReply('sendResponse', sendResponse);
  else prepareResponses(app);
  app.addHook('onClose', usage.close);
  await watch?.(app);

  await app.register(watchConnections);
  app.atEnd((request, reply) => onEnd(endedRequest(request, reply)));
  await app.register(responseHeaders);
  // Before the plugins: their routes use the error handler that is set when they are added.
  await app.register(errorHandlers, { notFoundPage: createNotFoundPage(app, { readFile }) });
  await app.register(bodies);
  await app.register(fairness, { keys });
  await app.register(cors);
  await app.register(requestChecks, { servesHost });
  await app.register(validation);
  await app.register(preconditions);
  await app.register(rateLimits);

  await app.register(docs, { readFile });
  if (signUp !== 'none') await app.register(account, { prefix: '/account', passwordCost });
  // An unknown path needs no key.
  refuseEmptyParameter(app, '/v1/pets/');
  await app.register(async (keyed: App) => {
    await keyed.register(requireKey, { keys });
    if (options.requestsPerMinute !== undefined) keyed.addHook('onRequest', keyed.rateLimit());
    addParser(keyed, parseJson);
    await addRoutes(keyed, async () => {
      await keyed.register(pets, { prefix: '/v1', cacheReads: plain ? undefined : cacheReads });
      await keyed.register(orders, { prefix: '/v1' });
      if (quickstartBasePath !== undefined) await keyed.register(messages, { prefix: quickstartBasePath });
    });
  });
  return app;
}
