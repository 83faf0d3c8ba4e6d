/**
 * An optimisation of `sendResponse`: it writes the head of a response as text and sends it at the end of the turn, with those of other requests.
 * Node's writeHead() validates each header of each response, 5 µs of a read of 30. Without this file and its line in app.ts, the service is as correct.
 * Fastify's onSend hooks do not run for such a response: there is one, in headers.ts, and what it does is here, too.
 */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { expectReader } from './connections.ts';
import { headOf, linesOf, standingHeaders } from './headers.ts';
import { STATUS_CODES, validateHeaderValue } from './node-http.ts';
import { type HeaderFields, type KnownResponse, sendResponse } from './responses.ts';

let second = 0;
let date = '';

/** The Date header, formatted once in each second. */
function dateLine(): string {
  const now = Math.floor(Date.now() / 1000);
  if (now !== second) {
    second = now;
    date = `Date: ${new Date(now * 1000).toUTCString()}\r\n`;
  }
  return date;
}

/** Node writes a string of up to 16 KiB without allocating memory for it, and in the same write as the head. */
const maxBytes = 16 * 1024 - 1024;

const standingLines = linesOf(standingHeaders);

/** Keeps and returns the head, and a body with one character per byte (latin1). Undefined if the body is too large. */
function prepare(response: KnownResponse): KnownResponse['prepared'] {
  const { status, headers, body = '' } = response;
  if (body.length > maxBytes) return undefined;
  const standing = headers['content-security-policy'] === undefined ? standingLines : '';
  const length = status === 304 ? '' : `content-length: ${body.length}\r\n`;
  response.prepared = {
    head: [headOf(status, headers), standing, length].join(''),
    body: typeof body === 'string' ? body : body.toString('latin1'),
  };
  return response.prepared;
}

/** What Node's writeHead() sets: null before, and undefined if this version of Node does not have it. */
const headOfNode = '_header';
type WithHead = ServerResponse & { [headOfNode]?: string | null };

/** Headers of the connection and of framing, which Node writes. */
const framing = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'date']);

/** Adds a header that a hook has set. Undefined if it replaces one of the response's own. */
function addHeader(head: string, own: HeaderFields, name: string, value: unknown): string | undefined {
  const text = String(value);
  if (name === 'vary' && own.vary !== undefined) return head.replace('\r\nvary: ', () => `\r\nvary: ${text}, `);
  if (framing.has(name) || Array.isArray(value) || head.includes(`\r\n${name}: `)) return undefined;
  validateHeaderValue(name, text);
  return `${head}${name}: ${text}\r\n`;
}

/** Lets `sendResponse` send prepared responses, unless they close the connection, are large or have unusual headers. */
export function prepareResponses(app: FastifyInstance): void {
  /** What Node adds to a response on a connection that stays open, and the end of the head. */
  const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${app.server.keepAliveTimeout / 1000}\r\n\r\n`;
  /** The lines of the headers that all responses of a route carry. */
  const routeLines = new WeakMap<HeaderFields, string>();
  /** The responses of this turn of the event loop. They are sent at its end: a proxy on this machine wakes up once for all, not once for each. */
  let ready: { raw: ServerResponse; body: string }[] = [];

  function linesOfRoute(headers: HeaderFields): string {
    const lines = routeLines.get(headers) ?? linesOf(headers);
    routeLines.set(headers, lines);
    return lines;
  }

  function sendReady(): void {
    const now = ready;
    ready = [];
    for (const { raw, body } of now) {
      raw.end(body, 'latin1');
      // Not before: a timer costs 2 µs, and the kernel takes most responses at once.
      if (raw.socket?.writableLength) expectReader(app.server, raw.socket);
    }
  }

  app.decorateReply('sendResponse', function sendPrepared(response) {
    const { request } = this;
    const raw: WithHead = this.raw;
    const { headers } = request;
    const prepared = response.prepared ?? prepare(response);
    const staysOpen =
      raw.shouldKeepAlive && headers.expect === undefined && headers.upgrade === undefined && !app.draining();
    if (this.sent || !prepared || !staysOpen || raw[headOfNode] !== null) return sendResponse.call(this, response);
    const { headers: ofRoute } = request.routeOptions.config;
    let head: string | undefined =
      `${prepared.head}${ofRoute ? linesOfRoute(ofRoute) : ''}x-request-id: ${request.id}\r\n`;
    const set = this.getHeaders();
    for (const name in set) {
      head = addHeader(head, response.headers, name, set[name]);
      if (head === undefined) return sendResponse.call(this, response);
    }
    this.hijack();
    raw.statusCode = response.status;
    raw.statusMessage = STATUS_CODES[response.status] as string;
    raw[headOfNode] = head + dateLine() + keepAlive;
    if (ready.length === 0) setImmediate(sendReady);
    ready.push({ raw, body: prepared.body });
    return this;
  });
}
