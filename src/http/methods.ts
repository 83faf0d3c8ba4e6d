/** What a path answers to the methods that it does not serve. */
import { METHODS } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import { HttpError } from './errors.ts';
import { respond, standing } from './responses.ts';

/** Makes the router know every method that Node's parser does, so that an unusual one is 405 and not 404. */
export function installMethods(app: FastifyInstance): void {
  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
}

/** OPTIONS: 204, any other method: 405, both with Allow (RFC 9110, sections 9.3.7 and 15.5.6). `headers`: as the route's own responses carry. */
export function refuseOtherMethods(
  app: FastifyInstance,
  url: string,
  served: string[],
  headers: readonly string[] = [],
): void {
  const allow = [...served, 'OPTIONS'].join(', ');
  const allowed = [...standing, 'allow', allow];
  const config = { headers };
  // Both before the body is read: what it holds does not matter.
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
