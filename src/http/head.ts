/** Writes the head of a response: its status line and headers, which are kept as the lines that are sent. */
import type { ServerResponse } from 'node:http';
import { limits } from '../core/limits.ts';
import { STATUS_CODES, validateHeaderName, validateHeaderValue } from './node-http.ts';

const lineEnd = '\r\n';
const separator = ': ';

/** A response has one line of Vary (see `addLines`). */
export const varyOrigin = 'vary: Origin\r\n';

/** Adds lines of a request to those of its response: if both vary, in one line. */
export function addLines(lines: string, more: string): string {
  const vary = '\r\nvary: ';
  if (!more.startsWith(varyOrigin) || !lines.includes(vary)) return lines + more;
  return lines.replace(vary, `${vary}Origin, `) + more.slice(varyOrigin.length);
}

/**
 * The lines of headers. Throws if one of them is not valid. They are joined: V8 would keep what `+` adds as a tree of its parts, and walk through it
 * for each response.
 */
export function linesOf(headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries(headers).map(([name, value]) => {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return name + separator + value + lineEnd;
  });
  return lines.join('');
}

/** The headers of lines: their names and values. */
export function headersIn(lines: string): [name: string, value: string][] {
  return lines
    .split(lineEnd)
    .slice(0, -1)
    .map((line) => {
      const at = line.indexOf(separator);
      return [line.slice(0, at), line.slice(at + separator.length)];
    });
}

/** What Node adds to a response on a connection that stays open. */
const keepAlive = ['Connection: keep-alive', `Keep-Alive: timeout=${limits.keepAlive / 1000}`, '', ''].join(lineEnd);

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

/** What Node's writeHead() sets: null before, and undefined if a version of Node has it no more. Its types lack it. */
type Response = ServerResponse & { _header?: string | null };

/**
 * Writes the head of a response, with the bytes of Node's writeHead(), which validates each header of each response and takes a sixth of the user
 * time of a read. Node's own is called unless the connection stays open: `lines` then include Content-Length, if there is a body. To close it, set
 * `shouldKeepAlive` to false.
 */
export function sendHead(response: Response, status: number, lines: string): void {
  const { shouldKeepAlive, req } = response;
  const isPlain =
    response._header === null &&
    shouldKeepAlive &&
    // Node closes a connection if the client expects 100 Continue and did not get it.
    req.headers.expect === undefined;
  if (!isPlain) return void response.writeHead(status, headersIn(lines).flat());
  const message = STATUS_CODES[status] ?? '';
  response.statusCode = status;
  response.statusMessage = message;
  response._header = `HTTP/1.1 ${status} ${message}\r\n${lines}${dateLine()}${keepAlive}`;
}
