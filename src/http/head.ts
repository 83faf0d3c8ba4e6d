/** Writes the head of a response: its status line and headers, which are kept as the lines that are sent. */
import { type ServerResponse, STATUS_CODES, validateHeaderName, validateHeaderValue } from 'node:http';
import { limits } from '../core/limits.ts';

const lineEnd = '\r\n';
const separator = ': ';

/** The line of a header. Throws if it is not valid. */
export function lineOf(name: string, value: string): string {
  validateHeaderName(name);
  validateHeaderValue(name, value);
  return name + separator + value + lineEnd;
}

/** The lines of headers, which are alternating names and values. Throws if one of them is not valid. */
export function linesOf(headers: readonly string[]): string {
  let lines = '';
  for (let at = 0; at < headers.length; at += 2) lines += lineOf(headers[at] as string, headers[at + 1] as string);
  return lines;
}

/** The headers of lines, as alternating names and values. */
export function headersOf(lines: string): string[] {
  const headers: string[] = [];
  for (const line of lines.split(lineEnd)) {
    const at = line.indexOf(separator);
    if (at > 0) headers.push(line.slice(0, at), line.slice(at + separator.length));
  }
  return headers;
}

/** What Node adds to a response on a connection that stays open. */
const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${limits.keepAlive / 1000}\r\n\r\n`;

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

/** `_header`: what Node's own writeHead() sets. Its types lack it. */
type Response = ServerResponse & { _header?: string };

/**
 * Writes the head of a response for which `staysOpen` returns true, and whose lines include Content-Length. It is what Node's writeHead()
 * writes, which validates each header of each response and takes a sixth of the user time of a read.
 */
export function writeHead(response: Response, status: number, lines: string): void {
  const message = STATUS_CODES[status] ?? '';
  response.statusCode = status;
  response.statusMessage = message;
  response._header = `HTTP/1.1 ${status} ${message}\r\n${lines}${dateLine()}${keepAlive}`;
}

/** Statuses whose responses have no body. */
const bodiless = new Set([204, 304]);

/**
 * Whether the connection stays open after a response with these lines, the response has a body, and nobody has set a header: Fastify does while it
 * closes. Node closes a connection if the client expects 100 Continue and did not get it.
 */
export function staysOpen(response: ServerResponse, status: number, lines: string): boolean {
  const { headersSent, shouldKeepAlive, req } = response;
  // Node's writeHead() throws, as it should.
  if (headersSent) return false;
  const isPlain = req.headers.expect === undefined && response.getHeaderNames().length === 0;
  return shouldKeepAlive && isPlain && !bodiless.has(status) && !lines.includes('connection: ');
}

/** Writes the head of a response, here if that is enough. */
export function sendHead(response: ServerResponse, status: number, lines: string): void {
  if (staysOpen(response, status, lines)) writeHead(response, status, lines);
  else response.writeHead(status, headersOf(lines));
}
