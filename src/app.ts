/** Builds the HTTP server: what every request meets, in this order, and then one line for each subject. */
import type { FastifyInstance } from 'fastify';
import { account } from './account/routes.ts';
import type { AccountOptions } from './account/scope.ts';
import { type DocsOptions, docs } from './docs/routes.ts';
import { requireKey } from './http/auth.ts';
import { installBody } from './http/body.ts';
import { installPreflight } from './http/cors.ts';
import { installMethods, watchMethods } from './http/methods.ts';
import { installErrors, refuseEmptyParameter } from './http/not-found.ts';
import type { App } from './http/operation.ts';
import { installPreconditions } from './http/preconditions.ts';
import { installRequestChecks } from './http/request-checks.ts';
import { createServer, type ServerOptions } from './http/server.ts';
import { installValidation } from './http/validation.ts';
import { messages } from './messages/routes.ts';
import { orders } from './orders/routes.ts';
import { pets } from './pets/routes.ts';

export interface AppOptions extends ServerOptions, AccountOptions, DocsOptions {
  /** Called before any route is registered, for plugins that must see every route. */
  watch?: (app: FastifyInstance) => Promise<void>;
}

/** Builds the server. It does not listen yet. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const app = createServer(options);
  await options.watch?.(app);

  installMethods(app);
  installRequestChecks(app);
  // Before the plugins: their routes use the error handler that is set when they are added.
  installErrors(app);
  installPreflight(app);
  installBody(app);
  installValidation(app);
  installPreconditions(app);

  const { passwordCost, quickstartBasePath, readFile, signUp } = options;
  await app.register(docs, { readFile });
  if (signUp !== 'none') await app.register(account, { prefix: '/account', passwordCost });
  // An unknown path needs no key.
  refuseEmptyParameter(app, '/v1/pets/');
  await app.register(async (keyed: App) => {
    await requireKey(keyed);
    const refuseOtherMethods = watchMethods(keyed);
    await keyed.register(pets, { prefix: '/v1' });
    await keyed.register(orders, { prefix: '/v1' });
    if (quickstartBasePath !== undefined) await keyed.register(messages, { prefix: quickstartBasePath });
    refuseOtherMethods();
  });
  return app;
}
