/** Responses whose parts are known before they are sent: documents, reads and their 304, creates, the 401 without a key. */
import { hash } from 'node:crypto';
import type { FastifyReply } from 'fastify';
import { isCurrent } from './preconditions.ts';

export type HeaderFields = Readonly<Record<string, string>>;

/** A response that can be sent many times. */
export interface KnownResponse {
  status: number;
  headers: HeaderFields;
  /** A string is ASCII. Undefined: the status has no body. */
  body: string | Buffer | undefined;
  /** Set by prepared.ts. */
  prepared?: { head: string; body: string } | undefined;
}

/** Sends a response. app.ts can replace it by that of prepared.ts, which does the same in less time. */
export function sendResponse(this: FastifyReply, { status, headers, body }: KnownResponse): FastifyReply {
  // client-errors.ts or a time-out has answered.
  if (this.sent) return this;
  const vary = this.getHeader('vary');
  this.code(status).headers(headers);
  if (vary !== undefined && headers.vary !== undefined) this.header('vary', `${vary}, ${headers.vary}`);
  return this.send(body);
}

/** What a GET returns. */
export interface Representation {
  etag: string;
  found: KnownResponse;
  /** The 304 for a client that has it, made when it is first sent. */
  notModified?: KnownResponse | undefined;
}

export interface Kind {
  /** More headers, also of the 304. */
  headers?: HeaderFields;
  /** The id of the last animal if another page follows: the ETag changes when a next page appears, although the body stays the same. */
  next?: bigint | undefined;
  type?: string;
  /** Whether it is the same for everybody; otherwise only for a valid API key. */
  isPublic?: boolean;
  vary?: string;
  encoding?: string;
}

/** Node would copy a longer string outside of V8's heap, and keep the copy until the client has read it. */
const maxText = 16 * 1024;

/** Text as the body of a response. The numbers of characters and bytes are equal only for ASCII. */
export function asBody(content: string | Buffer): string | Buffer {
  const isText =
    typeof content === 'string' && content.length <= maxText && Buffer.byteLength(content) === content.length;
  if (isText) return content;
  return Buffer.from(content);
}

/** Builds a representation of text or bytes. All caches must revalidate it, and shared ones must not store a private one (RFC 9111, section 5.2.2). */
export function represent(content: string | Buffer, kind: Kind = {}): Representation {
  const { headers: more, next, type = 'application/json', isPublic = false, vary = 'Authorization', encoding } = kind;
  // A strong validator: two ETags are equal only if the bytes (RFC 9110, section 8.8.3) and the next page are equal.
  const etag = `"${hash('sha256', next === undefined ? content : `${content}${next}`, 'base64url').slice(0, 27)}"`;
  const headers: HeaderFields = {
    etag,
    'cache-control': isPublic ? 'public, no-cache' : 'private, no-cache',
    vary,
    'content-type': type,
    ...(encoding !== undefined && { 'content-encoding': encoding }),
    ...more,
  };
  return { etag, found: { status: 200, headers, body: asBody(content), prepared: undefined }, notModified: undefined };
}

/** A 304 has the headers that do not describe a body (RFC 9110, section 15.4.5). */
function notModified({ found }: Representation): KnownResponse {
  const { 'content-type': _type, 'content-encoding': _encoding, ...headers } = found.headers;
  return { status: 304, headers, body: undefined };
}

/** Sends the response to a GET, or 304 if the client already has it. Throws ApiError `precondition_failed` if If-Match does not hold. */
export function sendRepresentation(reply: FastifyReply, representation: Representation): FastifyReply {
  const { etag, found } = representation;
  if (!isCurrent(reply.request.headers, etag)) return reply.sendResponse(found);
  representation.notModified ??= notModified(representation);
  return reply.sendResponse(representation.notModified);
}
