/** Sends every response: the headers as lines, and a small body in the same write. */
import { hash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import { addLines, linesOf, sendHead } from './head.ts';
import { isCurrent } from './preconditions.ts';

/**
 * Headers of every response, whatever its status. Responses are data: browsers must not guess their type, render them as pages or frame them
 * (OWASP REST Security Cheat Sheet). frame-ancestors replaces X-Frame-Options, and default-src covers all resources that a page could load.
 * The proxy that ends TLS must set Strict-Transport-Security: it must not be sent over plain HTTP (RFC 6797, section 7.2).
 */
export const standingHeaders = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};

const standingLines = linesOf(standingHeaders);

/**
 * The headers of pages, instead of `standingHeaders`: they load files of this server only, have no inline scripts and styles, evaluate no strings as scripts and
 * cannot be framed. `more`: other directives of their policy.
 */
export const pageHeaders = (more: string) => ({
  ...standingHeaders,
  'content-security-policy': `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; ${more}; base-uri 'none'; frame-ancestors 'none'`,
  'cross-origin-opener-policy': 'same-origin',
});

/** A 200 response to GET, ready to send. */
export interface Rendered {
  /** A small body is a string with one character per byte (latin1). */
  body: string | Buffer;
  etag: string;
  /** The lines of the headers of a 304 response, including ETag. */
  headers: string;
  /** The same, plus those that describe the body, such as Content-Type and Content-Length. */
  bodyHeaders: string;
}

/** Node writes a string of up to 16 KiB without allocating memory for it. A larger body is a buffer, which is shared and not copied. */
const maxStringBytes = 16 * 1024 - 1024;

export interface Kind {
  /** The lines of headers that replace `standingHeaders`. */
  security?: string;
  link?: string;
  /** The id of the last animal if another page follows: a full last page gets its next one without a change of its bytes. */
  next?: bigint | undefined;
  type?: string;
  /** Whether it is the same for everybody. Otherwise it depends on the API key. */
  isPublic?: boolean;
  vary?: string;
  encoding?: string;
}

/** Renders a response from text or bytes. All caches must revalidate it, and shared ones must not store a private one (RFC 9111, section 5.2.2). */
export function render(
  content: string | Buffer,
  {
    security = standingLines,
    link,
    next,
    type = 'application/json',
    isPublic = false,
    vary = 'Authorization',
    encoding,
  }: Kind = {},
): Rendered {
  const length = Buffer.byteLength(content);
  // A strong validator: two ETags are equal only if the bytes are equal (RFC 9110, section 8.8.3), and the next page.
  const etag = `"${hash('sha256', next === undefined ? content : `${content}${next}`, 'base64url').slice(0, 27)}"`;
  const more = link === undefined ? '' : linesOf({ link });
  const coding = encoding === undefined ? '' : `content-encoding: ${encoding}\r\n`;
  const caching = `cache-control: ${isPublic ? 'public' : 'private'}, no-cache\r\nvary: ${vary}\r\n`;
  // Joined, as those of linesOf().
  const headers = [security, `etag: ${etag}\r\n`, caching, more].join('');
  const bodyHeaders = [headers, `content-type: ${type}\r\ncontent-length: ${length}\r\n`, coding].join('');
  return { body: bodyOf(content, length), etag, headers, bodyHeaders };
}

function bodyOf(content: string | Buffer, length: number): string | Buffer {
  // The numbers of characters and bytes are equal only for ASCII.
  if (length <= maxStringBytes && length === content.length && typeof content === 'string') return content;
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return length <= maxStringBytes ? bytes.toString('latin1') : bytes;
}

/** A large body is sent in slices, one per turn of the event loop. Copying megabytes at once for each of a thousand clients would block all others. */
const sliceBytes = 128 * 1024;

function sendSlices(response: ServerResponse, body: Buffer): void {
  let sent = 0;
  function sendNext(): void {
    if (response.destroyed) return;
    const slice = body.subarray(sent, sent + sliceBytes);
    sent += slice.length;
    if (sent === body.length) response.end(slice);
    else if (response.write(slice)) setImmediate(sendNext);
    else response.once('drain', sendNext);
  }
  sendNext();
}

/** The responses of this turn of the event loop. They are sent at its end: a proxy on this machine wakes up once for all, not once for each. */
let ready: { response: ServerResponse; body: string | Buffer }[] = [];

function sendReady(): void {
  const now = ready;
  ready = [];
  for (const { response, body } of now) {
    if (typeof body === 'string') response.end(body, 'latin1');
    else if (body.length <= sliceBytes || response.req.method === 'HEAD') response.end(body);
    else sendSlices(response, body);
  }
}

/**
 * Sends a response. `headers`: their lines, including `standingHeaders` and Content-Length, unless the status has no body. `body`: a buffer,
 * or a string with one character per byte, which is sent in the same write as the headers. Headers set by reply.header() are not sent.
 */
export function respond(reply: FastifyReply, status: number, headers: string, body: string | Buffer): void {
  const { raw: response, server } = reply;
  if (server.draining()) response.shouldKeepAlive = false;
  const { id, ownHeaders } = reply.request;
  sendHead(response, status, addLines(`x-request-id: ${id}\r\n${headers}`, ownHeaders));
  if (ready.length === 0) setImmediate(sendReady);
  ready.push({ response, body });
}

/** Counts a large body until its client has read it, or is gone. Throws ApiError `service_unavailable` if too many bytes are unread. */
export function reserveBytes({ request, raw, server: { shares } }: FastifyReply, body: Buffer): void {
  if (raw.destroyed || !shares.takeUnread(request.record.holder, body)) return;
  raw.once('close', () => shares.giveUnread(body));
}

/**
 * Sends the response to a GET, or 304 if the client already has it. Throws ApiError `precondition_failed` if If-Match does not hold, and
 * `service_unavailable` if too many bytes are unread.
 */
export function sendRendered(reply: FastifyReply, rendered: Rendered): void {
  const { body, etag, headers, bodyHeaders } = rendered;
  if (isCurrent(reply.request.headers, etag)) respond(reply, 304, headers, '');
  else {
    if (typeof body !== 'string' && reply.request.method !== 'HEAD') reserveBytes(reply, body);
    respond(reply, 200, bodyHeaders, body);
  }
}

const outcome = linesOf({ ...standingHeaders, 'cache-control': 'no-store', 'content-type': 'application/json' });

/** Sends the response to a POST. `headers`: the lines of additional headers. */
export function sendOutcome(reply: FastifyReply, status: number, json: string, headers = ''): void {
  const length = Buffer.byteLength(json);
  respond(reply, status, `${outcome}content-length: ${length}\r\n${headers}`, bodyOf(json, length));
}
