/** Responds to requests for paths that have no operation: 404 with the address of the API, and to OPTIONS * with 204. */
import { METHODS } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { ApiError, errorMessages } from '../core/errors.ts';
import type { NotFound } from './errors.ts';
import { linesOf } from './head.ts';
import { respond, standingHeaders } from './responses.ts';

/** What the server supports as a whole (RFC 9110, section 9.3.7). */
const serverWide = linesOf({ ...standingHeaders, allow: 'GET, HEAD, POST, OPTIONS' });

/** A path, other than the root, that ends in a slash. Clients of proxies send it after the scheme and the host (RFC 9112, section 3.2.2). */
const endsInSlash = /^(?:https?:\/\/[^/?]+)?\/[^?]*\/(?:\?|$)/i;

/** `base`: the start of the URLs in responses: the public base address, or its path. Ends in /v1. */
export function createNotFound(base: string): NotFound {
  const docs = `${base.slice(0, -'/v1'.length)}/docs`;
  const api = `The API is below ${base}, for example GET ${base}/pets; ${docs} describes it.`;
  // Created once: capturing a stack trace costs more than the rest of the response.
  const unknown = new ApiError('route_not_found', `${errorMessages.route_not_found} ${api}`);
  const slash = new ApiError('route_not_found', `${errorMessages.route_not_found} No path ends in a slash. ${api}`);

  return (request, reply) => {
    const { url = '' } = request.raw;
    if (url === '*' && request.method === 'OPTIONS') return respond(reply, 204, serverWide, '');
    throw endsInSlash.test(url) ? slash : unknown;
  };
}

/** Makes `url`, which ends in a slash, an unknown path. Otherwise the router would match an empty parameter. */
export function refuseEmptyParameter(app: FastifyInstance, url: string, notFound: NotFound): void {
  const refuse: NotFound = (request, reply) => {
    request.record.route = null;
    notFound(request, reply);
  };
  app.route({ method: METHODS, url, onRequest: refuse, handler: refuse });
}
