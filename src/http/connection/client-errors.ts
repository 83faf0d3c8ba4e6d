/** Responds to requests that never reach Fastify, or reach it too late: broken HTTP, CONNECT, time-outs. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError, codeOf, type ErrorCode } from '../../core/errors.ts';
import type { CorsLines } from '../cors.ts';
import { HttpError, renderError } from '../errors.ts';
import { sendHead } from '../head.ts';
import { plainAddress } from '../networks.ts';
import { STATUS_CODES } from '../node-http.ts';
import type { OnEnd } from '../request-record.ts';
import { connections } from './connection.ts';

const parserCodes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** How long a rejected client may continue to send before its connection is destroyed. */
const lingerMs = 500;

interface ClientErrorOptions {
  onEnd: OnEnd;
  corsLines: CorsLines;
  /** The lines of the headers that all responses of a path carry. */
  linesOfPath: (url?: string) => string;
}

const ignore = () => undefined;

/** The lines of the headers of an error, without Connection. */
function linesFor(error: ApiError, id: string, more: string): string {
  return `x-request-id: ${id}\r\n${renderError(error).lines}${more}`;
}

export function createClientErrors({ onEnd, corsLines, linesOfPath }: ClientErrorOptions) {
  const refused = new WeakSet<Duplex>();

  /** Rejects a request that Node's HTTP parser could not read, or that did not arrive in time, and closes the socket. */
  function refuseConnection(error: Error, socket: Duplex): void {
    // The parser reports an error again for every packet that follows.
    if (refused.has(socket)) return;
    refused.add(socket);
    // If the client ends its side now, Node would close the connection after the response to an earlier request, before this one.
    socket.removeAllListeners('end');
    refuseInTurn(socket, new ApiError(parserCodes[codeOf(error)] ?? 'bad_request'));
  }

  /** Sends `error` after the responses to earlier requests, which may wait for the store, and then closes the socket. */
  function refuseInTurn(socket: Duplex, error: ApiError, origin?: string): void {
    const { request, response } = connections.get(socket) ?? {};
    // The client has reset the connection, for example: Node reports that as a client error, too.
    if (!socket.writable) socket.destroy();
    else if (response?.req.complete) response.once('close', () => refuseInTurn(socket, error, origin));
    else if (response?.headersSent) response.once('close', () => socket.destroy());
    else if (response) answerError(response, error);
    // The interrupted request has already been answered.
    else if (request?.complete === false) socket.destroy();
    else writeError(socket, error, origin);
  }

  /** Responds with `error` to a request whose response has not begun. Unless `closes` is false, the connection closes then. */
  function answerError(response: ServerResponse, error: ApiError, closes = true): void {
    const { status, body } = renderError(error);
    const { record, headers, url } = response.req;
    record.code = error.code;
    if (closes) response.shouldKeepAlive = false;
    const more = linesOfPath(url) + corsLines(headers.origin);
    sendHead(response, status, linesFor(error, record.reqId, more));
    response.end(body, 'latin1');
  }

  /** Sends an error on a connection that has no current request, and closes the connection. `origin`: see CorsLines. */
  function writeError(socket: Duplex & { remoteAddress?: string | undefined }, error: ApiError, origin?: string): void {
    const { status, body } = renderError(error);
    const id = randomUUID();
    onEnd({ reqId: id, status, address: plainAddress(socket.remoteAddress) || undefined, code: error.code });
    const first = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ndate: ${new Date().toUTCString()}\r\n`;
    socket.on('error', ignore);
    socket.end(`${first}${linesFor(error, id, corsLines(origin))}connection: close\r\n\r\n${body}`, 'latin1');
    // Closing with unread bytes would reset the connection, and the client could lose the response (RFC 9112, section 9.6).
    socket.resume();
    const cut = setTimeout(() => socket.destroy(), lingerMs).unref();
    socket.once('close', () => clearTimeout(cut));
  }

  /** Sets the handling of half-closed connections and of CONNECT (RFC 9110, section 9.3.6). */
  function install(server: Server): void {
    // A client that has closed only its sending side still expects its response. Node's types lack this property.
    Object.assign(server, { httpAllowHalfOpen: true });
    // This server is not a proxy. An empty Allow header says that no method is allowed (RFC 9110, section 10.2.1).
    server.on('connect', ({ headers }: IncomingMessage, socket: Duplex) => {
      // Node has removed its listeners from this socket. Without an error listener, an error would end the process. Responses to earlier
      // requests still need the drain and timeout events, and the close event, which comes only if the socket is being read.
      socket.on('error', ignore);
      socket.on('drain', () => connections.get(socket)?.response?.emit('drain'));
      socket.on('timeout', () => server.emit('timeout', socket));
      socket.resume();
      refuseInTurn(socket, new HttpError('method_not_allowed', { allow: '' }), headers.origin);
    });
  }

  return { refuseConnection, answerError, writeError, install };
}
