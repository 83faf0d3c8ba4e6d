/** The headers that every response carries. */
import fp from 'fastify-plugin';
import { expectReader } from './connections.ts';
import { STATUS_CODES } from './node-http.ts';
import type { HeaderFields } from './responses.ts';

/**
 * Responses are data: browsers must not guess their type, render them as pages or frame them (OWASP REST Security Cheat Sheet). frame-ancestors
 * replaces X-Frame-Options, and default-src covers all resources that a page could load. The proxy that ends TLS must set Strict-Transport-Security: it
 * must not be sent over plain HTTP (RFC 6797, section 7.2).
 */
export const standingHeaders = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};

/**
 * The headers of pages, instead of `standingHeaders`: they load files of this server only, have no inline scripts and styles, evaluate no strings as
 * scripts and cannot be framed. `more`: other directives of their policy.
 */
export const pageHeaders = (more: string) => ({
  ...standingHeaders,
  'content-security-policy': `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; ${more}; base-uri 'none'; frame-ancestors 'none'`,
  'cross-origin-opener-policy': 'same-origin',
});

/** The lines of headers. Joined: V8 keeps a string that is built with `+` as a tree, which each response would walk. */
export function linesOf(headers: HeaderFields): string {
  const parts: string[] = [];
  for (const name in headers) parts.push(name, ': ', headers[name] as string, '\r\n');
  return parts.join('');
}

/** The status line and the headers of a response, without the empty line behind them. */
export const headOf = (status: number, headers: HeaderFields) =>
  `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${linesOf(headers)}`;

/**
 * The only hook onSend of the API: a prepared response would skip any other. Adds the headers to what Fastify sends, and those of the route, unless its
 * handler has set them.
 */
export const responseHeaders = fp(async (app) => {
  app.addHook('onSend', (request, reply, _payload, done) => {
    expectReader(app.server, request.raw.socket);
    const { headers } = request.routeOptions.config;
    if (headers) reply.headers(headers);
    reply.header('x-request-id', request.id);
    for (const [name, value] of Object.entries(standingHeaders)) if (!reply.hasHeader(name)) reply.header(name, value);
    // JSON has no charset parameter (RFC 8259, section 11). Fastify adds one.
    if (reply.getHeader('content-type') === 'application/json; charset=utf-8') reply.type('application/json');
    // Node parses nothing after a request with Upgrade, even if that is refused.
    if (request.headers.upgrade !== undefined || app.draining()) reply.header('connection', 'close');
    done();
  });
});
