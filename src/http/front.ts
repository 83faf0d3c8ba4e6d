/** What every request meets first: its identity, the length of its URL, and its Host. */
import type { FastifyInstance } from 'fastify';
import { Failure } from '../errors.ts';

/** RFC 9112, section 3 asks for at least 8,000 octets. */
const maxUrlLength = 8192;

export function installFront(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    reply.header('x-content-type-options', 'nosniff');
    const { url, httpVersion, headers } = request.raw;
    if ((url as string).length > maxUrlLength) return done(new Failure('uri_too_long'));
    // RFC 9112, section 3.2: exactly one Host, except in HTTP/1.0. Two arrive here joined by a comma and a space.
    if (headers.host === undefined ? httpVersion !== '1.0' : headers.host.includes(', ')) {
      return done(new Failure('bad_request', 'The request must have exactly one Host header.'));
    }
    done();
  });
}
