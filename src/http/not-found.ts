/** Installs the error handler, and the responses for paths that have no operation: 404 with the address of the API; 204 for OPTIONS *. */
import type { FastifyInstance } from 'fastify';
import { ApiError, errorTable } from '../core/errors.ts';
import { sendError } from './errors.ts';
import { linesOf } from './head.ts';
import { METHODS } from './node-http.ts';
import { respond, standingHeaders } from './responses.ts';

/** What the server supports as a whole (RFC 9110, section 9.3.7). */
const serverWide = linesOf({ ...standingHeaders, allow: 'GET, HEAD, POST, OPTIONS' });

/** A path, other than the root, that ends in a slash. Clients of proxies send it after the scheme and the host (RFC 9112, section 3.2.2). */
const endsInSlash = /^(?:https?:\/\/[^/?]+)?\/[^?]*\/(?:\?|$)/i;

/** Installs the handlers of errors and of unknown paths for the whole server. */
export function installErrors(app: FastifyInstance): void {
  const { base } = app;
  const docs = `${base.slice(0, -'/v1'.length)}/docs`;
  const api = `The API is below ${base}, for example GET ${base}/pets; ${docs} describes it.`;
  // Created once: capturing a stack trace costs more than the rest of the response.
  const [, nothing] = errorTable.route_not_found;
  const unknown = new ApiError('route_not_found', `${nothing} ${api}`);
  const slash = new ApiError('route_not_found', `${nothing} No path ends in a slash. ${api}`);

  app.decorate('notFound', (request, reply) => {
    const { url = '' } = request.raw;
    if (url === '*' && request.method === 'OPTIONS') return respond(reply, 204, serverWide, '');
    throw endsInSlash.test(url) ? slash : unknown;
  });
  app.setErrorHandler(sendError);
  app.setNotFoundHandler(app.notFound);
}

/** Makes `url`, which ends in a slash, an unknown path. Otherwise the router would match an empty parameter. */
export function refuseEmptyParameter(app: FastifyInstance, url: string, notFound = app.notFound): void {
  const refuse: FastifyInstance['notFound'] = (request, reply) => {
    request.record.route = null;
    notFound(request, reply);
  };
  app.route({ method: METHODS, url, onRequest: refuse, handler: refuse });
}
