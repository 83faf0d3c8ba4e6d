/** Responds to OPTIONS and to the methods that a path does not support. */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { linesOf } from './head.ts';
import { HttpError } from './http-error.ts';
import { METHODS } from './node-http.ts';
import { respond, standingHeaders } from './responses.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route has been removed: its methods then leave Allow. */
    removed?: () => boolean;
  }
}

/** The routes of each scope. `routePath`: without the prefix of the scope. */
const registered = new WeakMap<FastifyInstance, (RouteOptions & { routePath: string })[]>();

/** Registers every method that Node's parser knows, so that an unusual method gets 405 and not 404. */
export function installMethods(app: FastifyInstance): void {
  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
  app.addHook('onRoute', function (route) {
    registered.set(this, [...(registered.get(this) ?? []), route]);
  });
}

/**
 * Responds to OPTIONS with 204 and to any other unsupported method with 405, both with Allow (RFC 9110, sections 9.3.7 and 15.5.6), on every
 * path that the scope has so far. Both carry the headers that all routes of the path carry.
 */
export function refuseOtherMethods(scope: FastifyInstance): void {
  for (const [url, routes] of Map.groupBy(registered.get(scope) ?? [], ({ routePath }) => routePath)) {
    // A wildcard matches unknown paths, which support no method.
    if (!url.endsWith('*') && !methodsOf(routes).includes('OPTIONS')) refuseAt(scope, url, routes);
  }
}

const methodsOf = (routes: RouteOptions[]) =>
  METHODS.filter((method) => routes.some((route) => [route.method].flat().includes(method)));

function sharedHeaders(routes: RouteOptions[]): string {
  const [first, ...others] = routes.map(({ config }) => config?.headers);
  return (others.every((headers) => headers === first) && first) || '';
}

/** The lines of the response to OPTIONS, and the error for other methods. */
function answersOf(routes: RouteOptions[]): { allowed: string; refusal: HttpError } {
  const allow = [...methodsOf(routes), 'OPTIONS'].join(', ');
  return { allowed: linesOf({ ...standingHeaders, allow }), refusal: new HttpError('method_not_allowed', { allow }) };
}

function refuseAt(app: FastifyInstance, url: string, routes: RouteOptions[]): void {
  const served = methodsOf(routes);
  const all = answersOf(routes);
  const left = answersOf(routes.filter(({ config }) => !config?.removed));
  const answers = () => (routes.some(({ config }) => config?.removed?.()) ? left : all);
  const config = { headers: sharedHeaders(routes) };
  // Both responses are sent before the body is read: its content does not matter.
  const answerOptions = (_request: FastifyRequest, reply: FastifyReply) => respond(reply, 204, answers().allowed, '');
  app.options(url, { config, onRequest: answerOptions }, answerOptions);
  const refuse = () => {
    throw answers().refusal;
  };
  app.route({
    method: METHODS.filter((method) => method !== 'OPTIONS' && !served.includes(method)),
    url,
    config,
    onRequest: refuse,
    handler: refuse,
  });
}
