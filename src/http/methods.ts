/** Responds to OPTIONS and to the methods that a path does not support. */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { HttpError } from './errors.ts';
import { linesOf } from './head.ts';
import { METHODS } from './node-http.ts';
import { respond, standingHeaders } from './responses.ts';

/** Registers every method that Node's parser knows, so that an unusual method gets 405 and not 404. */
export function installMethods(app: FastifyInstance): void {
  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
}

/**
 * Call it before the routes of the scope are added, and what it returns after that, which responds on each of their paths: to OPTIONS with 204, and to any
 * other unsupported method with 405, both with Allow (RFC 9110, sections 9.3.7 and 15.5.6), and with the headers that the routes of the path carry.
 */
export function watchMethods(scope: FastifyInstance): () => void {
  const added: RouteOptions[] = [];
  scope.addHook('onRoute', (route) => void added.push(route));
  return () => {
    for (const [url, routes] of Map.groupBy(added, (route) => route.url)) {
      // A wildcard matches unknown paths, which support no method. With a slash at its end a path is unknown, too.
      if (/[^*/]$/.test(url)) refuseAt(scope, url.slice(scope.prefix.length), routes);
    }
  };
}

/** The lines of the response to OPTIONS, and the error for other methods. */
function answersOf(served: string[]): { allowed: string; refusal: HttpError } {
  const allow = [...served, 'OPTIONS'].join(', ');
  return { allowed: linesOf({ ...standingHeaders, allow }), refusal: new HttpError('method_not_allowed', { allow }) };
}

function refuseAt(app: FastifyInstance, url: string, routes: RouteOptions[]): void {
  const served = METHODS.filter((method) => routes.some((route) => [route.method].flat().includes(method)));
  // A path is deprecated, and then removed, with all its methods.
  const { headers = '', removed } = routes[0]?.config ?? {};
  const all = answersOf(served);
  const none = answersOf([]);
  // Before the body is read: its content does not matter.
  const answer = ({ method }: FastifyRequest, reply: FastifyReply) => {
    const { allowed, refusal } = removed?.() ? none : all;
    if (method !== 'OPTIONS') throw refusal;
    respond(reply, 204, allowed, '');
  };
  app.route({
    method: METHODS.filter((method) => !served.includes(method)),
    url,
    config: { headers },
    onRequest: answer,
    handler: answer,
  });
}
