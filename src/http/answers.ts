/** Answers that succeed: those of GET are kept, and asked about again with ETag and If-None-Match. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Rendered } from './rendered.ts';
import { admit } from './unread.ts';

/**
 * What every answer carries, whatever its status: it is data, not to be guessed at, rendered or framed (OWASP REST Security Cheat Sheet).
 * frame-ancestors stands for X-Frame-Options, and default-src for all that a page would need rules for. Strict-Transport-Security is
 * for whoever ends TLS: over plain HTTP it must not be sent (RFC 6797, section 7.2).
 */
export const standingHeaders = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};

/** Whether If-None-Match holds `etag`: a list or `*`, compared weakly (RFC 9110, section 13.1.2). */
function matches(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch === '*') return true;
  return ifNoneMatch.match(/"[\x21\x23-\x7e\x80-\xff]*"/g)?.some((tag) => tag === etag) ?? false;
}

/** Sends what a GET asked for, or 304 where the client has it. */
export function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  { body, etag, headers, bodyHeaders }: Rendered,
): FastifyReply {
  const condition = request.headers['if-none-match'];
  if (condition !== undefined && matches(condition, etag)) return setHeaders(reply, headers).code(304).send();
  admit(body, reply.raw);
  return setHeaders(setHeaders(reply, headers), bodyHeaders).send(body);
}

function setHeaders(reply: FastifyReply, headers: string[]): FastifyReply {
  for (let at = 0; at < headers.length; at += 2) {
    const [name, value] = headers.slice(at, at + 2) as [string, string];
    // An answer to a page of another origin varies by that as well.
    const others = name === 'vary' ? reply.getHeader(name) : undefined;
    reply.header(name, others === undefined ? value : `${others}, ${value}`);
  }
  return reply;
}

/** Sends the outcome of a POST. A Buffer, because Fastify would add a charset, which application/json does not define. */
export function accept(reply: FastifyReply, status: number, json: string): FastifyReply {
  return reply
    .code(status)
    .header('cache-control', 'no-store')
    .header('content-type', 'application/json')
    .send(Buffer.from(json));
}
