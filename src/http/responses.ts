/** How every response is sent: headers as one flat list, and a small body with them in one write. */
import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Exchanges } from './exchange.ts';

/**
 * What every response carries, whatever its status: it is data, not to be guessed at, rendered or framed (OWASP REST Security Cheat Sheet).
 * frame-ancestors stands for X-Frame-Options, and default-src for all that a page would need rules for. Strict-Transport-Security is
 * for whoever ends TLS: over plain HTTP it must not be sent (RFC 6797, section 7.2).
 */
export const standingHeaders = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};

/** The same, names and values in turn. */
export const standing: readonly string[] = Object.entries(standingHeaders).flat();

/** A 200 to GET, ready to send. */
export interface Rendered {
  /** Small ones as a string of single bytes. */
  body: string | Buffer;
  etag: string;
  /** Names and values in turn, ETag among them, as a 304 carries them. */
  headers: readonly string[];
  /** The same with Content-Type and Content-Length. */
  bodyHeaders: readonly string[];
}

/** Node writes a string of up to 16 KiB without memory of its own for it; larger bodies are better shared than copied. */
const maxStringBytes = 16 * 1024 - 1024;

interface Kind {
  /** In place of those of `standing`. */
  security?: readonly string[];
  link?: string;
  type?: string;
  vary?: string;
  encoding?: string;
}

/** Makes a response of a text, or of what is one already as bytes. No shared cache may keep it, and none use it without asking (RFC 9111, section 5.2.2). */
export function render(
  content: string | Buffer,
  { security = standing, link, type = 'application/json', vary, encoding }: Kind = {},
): Rendered {
  const length = Buffer.byteLength(content);
  // A strong validator: equal bytes, and only those, have an equal one (RFC 9110, section 8.8.3).
  const etag = `"${hash('sha256', content, 'base64url').slice(0, 27)}"`;
  const headers = [...security, 'etag', etag, 'cache-control', 'private, no-cache', 'vary', vary ?? 'Authorization'];
  if (link !== undefined) headers.push('link', link);
  const bodyHeaders = [...headers, 'content-type', type, 'content-length', String(length)];
  if (encoding !== undefined) bodyHeaders.push('content-encoding', encoding);
  return { body: bodyOf(content, length), etag, headers, bodyHeaders };
}

function bodyOf(content: string | Buffer, length: number): string | Buffer {
  // Only a text of ASCII has as many characters as bytes.
  if (length <= maxStringBytes && length === content.length && typeof content === 'string') return content;
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return length <= maxStringBytes ? bytes.toString('latin1') : bytes;
}

/** A large body goes in slices, one for each turn of the event loop: copying 4 MB for each of a thousand clients would stop all others. */
const sliceBytes = 128 * 1024;

function sendSlices(reply: FastifyReply, body: Buffer): void {
  const response = reply.raw;
  let sent = 0;
  function sendNext(): void {
    /* v8 ignore next -- only where the client is gone between two slices */
    if (response.destroyed) return;
    const slice = body.subarray(sent, sent + sliceBytes);
    sent += slice.length;
    if (sent === body.length) response.end(slice);
    else if (response.write(slice)) setImmediate(sendNext);
    else response.once('drain', sendNext);
  }
  sendNext();
}

/** Adds what was set on the reply in place of what is there under the same name; a Vary is made longer. */
function addSet(headers: string[], set: ReturnType<FastifyReply['getHeaders']>): void {
  for (const name in set) {
    const value = set[name];
    const place = headers.indexOf(name) + 1;
    if (place === 0) headers.push(name, String(value));
    else headers[place] = name === 'vary' ? `${value}, ${headers[place]}` : String(value);
  }
}

/**
 * Sends a response. `headers`: names and values in turn, with those of `standing`. `body`: a Buffer, or a string of single bytes, which
 * leaves in the same write as the headers. What was set by reply.header() counts only where the exchange says so: to look costs a tenth of a read.
 */
export function respond(reply: FastifyReply, status: number, headers: readonly string[], body: string | Buffer): void {
  const response = reply.raw;
  const { reqId, routeHeaders, headersSet } = reply.request.exchange;
  const all = ['x-request-id', reqId].concat(headers, routeHeaders);
  if (headersSet) addSet(all, reply.getHeaders());
  response.writeHead(status, all);
  if (typeof body === 'string') response.end(body, 'latin1');
  else if (body.length <= sliceBytes || reply.request.method === 'HEAD') response.end(body);
  else sendSlices(reply, body);
}

/** Whether If-None-Match holds `etag`: a list or `*`, compared weakly (RFC 9110, section 13.1.2). */
function matches(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch === '*') return true;
  return ifNoneMatch.match(/"[\x21\x23-\x7e\x80-\xff]*"/g)?.some((tag) => tag === etag) ?? false;
}

/** Sends what a GET asked for, or 304 where the client has it. Throws ApiError `service_unavailable` where too much is unread. */
export function sendRendered(exchanges: Exchanges, reply: FastifyReply, rendered: Rendered): void {
  const { body, etag, headers, bodyHeaders } = rendered;
  const condition = reply.request.headers['if-none-match'];
  if (condition !== undefined && matches(condition, etag)) respond(reply, 304, headers, '');
  else {
    if (typeof body !== 'string') exchanges.reserveBytes(reply.request, body);
    respond(reply, 200, bodyHeaders, body);
  }
}

const outcome = [...standing, 'cache-control', 'no-store', 'content-type', 'application/json', 'content-length'];

/** Sends the outcome of a POST. `headers`: names and values in turn. */
export function sendOutcome(reply: FastifyReply, status: number, json: string, headers: readonly string[] = []): void {
  const length = Buffer.byteLength(json);
  // Only a text of ASCII has as many characters as bytes.
  const body = length === json.length ? json : Buffer.from(json).toString('latin1');
  respond(reply, status, outcome.concat(String(length), headers), body);
}

/** Makes responses that plugins send by themselves, such as those to preflights, carry what all others do. */
export function installResponses(app: FastifyInstance): void {
  app.addHook('onSend', (request, reply, _payload, done) => {
    reply.header('x-request-id', request.id).headers(standingHeaders);
    done();
  });
}
