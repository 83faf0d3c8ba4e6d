/** Responds to OPTIONS and to the methods that a path does not support. */
import { METHODS } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import { HttpError } from './errors.ts';
import { respond, standing } from './responses.ts';

/** Registers every method that Node's parser knows, so that an unusual method gets 405 and not 404. */
export function installMethods(app: FastifyInstance): void {
  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
}

/**
 * Responds to OPTIONS with 204 and to any other unsupported method with 405, both with Allow (RFC 9110, sections 9.3.7 and 15.5.6).
 * `headers`: the headers that the route's own responses carry, as alternating names and values.
 */
export function refuseOtherMethods(
  app: FastifyInstance,
  url: string,
  served: string[],
  headers: readonly string[] = [],
): void {
  const allow = [...served, 'OPTIONS'].join(', ');
  const allowed = [...standing, 'allow', allow];
  const config = { headers };
  // Both responses are sent before the body is read: its content does not matter.
  const answerOptions = (_request: FastifyRequest, reply: FastifyReply) => respond(reply, 204, allowed, '');
  app.options(url, { config, onRequest: answerOptions }, answerOptions);
  const refuse = () => {
    throw new HttpError('method_not_allowed', { allow });
  };
  app.route({
    method: METHODS.filter((method) => method !== 'OPTIONS' && !served.includes(method)) as HTTPMethods[],
    url,
    config,
    onRequest: refuse,
    handler: refuse,
  });
}
