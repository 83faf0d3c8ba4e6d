/** Responds to OPTIONS, to the methods that a path does not support, and on paths that do not exist. */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { ApiError, errorTable } from '../core/errors.ts';
import { HttpError, sendError } from './errors.ts';
import { METHODS } from './node-http.ts';
import type { App } from './operation.ts';

/** A path, other than the root, that ends in a slash. Clients of proxies send it after the scheme and the host (RFC 9112, section 3.2.2). */
const endsInSlash = /^(?:https?:\/\/[^/?]+)?\/[^?]*\/(?:\?|$)/i;

/** Whether a person is likely to have typed the address: browsers name text/html when they open one. Paths of the API are for programs. */
const isAddressTyped = ({ method, headers, originalUrl }: FastifyRequest) =>
  (method === 'GET' || method === 'HEAD') &&
  headers.accept?.includes('text/html') &&
  !/^\/v1(?:\/|$)/.test(originalUrl);

interface NotFoundOptions {
  /** The page for an address that a person has mistyped. */
  notFoundPage: () => Promise<{ headers: Record<string, string>; html: string }>;
}

/** Adds the handlers of errors and of unknown paths, and every method of Node's parser, so that an unusual one gets 405 and not 404. */
export const errorHandlers = fp<NotFoundOptions>(async (app, { notFoundPage }) => {
  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
  const { base } = app.config;
  const docs = `${base.slice(0, -'/v1'.length)}/docs`;
  const api = `The API is below ${base}, for example GET ${base}/pets; ${docs} describes it.`;
  // Created once: capturing a stack trace costs more than the rest of the response.
  const [, nothing] = errorTable.route_not_found;
  const unknown = new ApiError('route_not_found', `${nothing} ${api}`);
  const slash = new ApiError('route_not_found', `${nothing} No path ends in a slash. ${api}`);

  app.decorate('notFound', (request, reply) => {
    const { originalUrl: url } = request;
    const error = endsInSlash.test(url) ? slash : unknown;
    if (!isAddressTyped(request)) throw error;
    request.errorCode = error.code;
    return notFoundPage().then(({ headers, html }) =>
      reply.code(404).headers(headers).type('text/html; charset=utf-8').send(html),
    );
  });
  app.setErrorHandler(sendError);
  app.setNotFoundHandler(app.notFound);
});

/** Makes `url`, which ends in a slash, an unknown path. Otherwise the router would match an empty parameter. */
export function refuseEmptyParameter(app: FastifyInstance, url: string, notFound = app.notFound): void {
  app.route({
    method: app.supportedMethods,
    url,
    config: { isUnknown: true },
    onRequest: notFound,
    handler: notFound,
  });
}

/**
 * Adds routes to a scope. Each of their paths then responds to OPTIONS with 204, and to any other unsupported method with 405, both with Allow (RFC 9110,
 * sections 9.3.7 and 15.5.6) and the headers that the routes of the path carry.
 */
export async function addRoutes(scope: App, add: () => Promise<void>): Promise<void> {
  const added: RouteOptions[] = [];
  scope.addHook('onRoute', (route) => void added.push(route));
  await add();
  // A copy: the hook also gets the routes that are added here.
  for (const [url, routes] of Map.groupBy([...added], (route) => route.url)) {
    // A wildcard matches unknown paths, which support no method. With a slash at its end any other path is unknown, too.
    if (/^\/$|[^*/]$/.test(url)) refuseAt(scope, url.slice(scope.prefix.length), routes);
  }
}

function refuseAt(app: FastifyInstance, url: string, routes: RouteOptions[]): void {
  const served = routes.flatMap(({ method }) => method);
  // A path is deprecated, and then removed, with all its methods.
  const { headers = {}, removed } = routes[0]?.config ?? {};
  // Before the body is read: its content does not matter.
  const answer = ({ method }: FastifyRequest, reply: FastifyReply) => {
    const allow = [...(removed?.() ? [] : served), 'OPTIONS'].join(', ');
    if (method !== 'OPTIONS') throw new HttpError('method_not_allowed', { allow });
    reply.code(204).header('allow', allow).send();
  };
  app.route({
    method: app.supportedMethods.filter((method) => !served.includes(method)),
    url,
    config: { headers },
    onRequest: answer,
    handler: answer,
  });
}
