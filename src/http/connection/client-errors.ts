/** The requests that Fastify never sees, or sees too late: broken HTTP, CONNECT, time-outs. */
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError, type ErrorCode } from '../../errors.ts';
import { HttpError, renderError } from '../errors.ts';
import { accountOf } from '../exchange.ts';
import type { Observe } from '../request-log.ts';

const parserCodes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** How long a refused client may go on sending before it is cut off. */
const lingerMs = 500;

/** What Node knows of a socket. To keep it ourselves would cost every request, and hold the last one of each idle socket. */
interface Bookkeeping {
  /** The response whose turn it is: responses leave in the order of their requests. */
  _httpMessage?: ServerResponse | null;
  /** The request that is, or was last, being read. */
  parser?: { incoming: IncomingMessage | null } | null;
}

const ignore = () => undefined;

const refused = new WeakSet<Duplex>();

/** Refuses what Node's HTTP parser could not read, or could not wait for, and closes the socket. */
export function refuseConnection(error: Error & { code?: string }, socket: Duplex, observe: Observe): void {
  // The parser fails again on every packet that follows.
  if (refused.has(socket)) return;
  refused.add(socket);
  refuseInTurn(socket, new ApiError(parserCodes[String(error.code)] ?? 'bad_request'), observe);
}

/** Sends `failure` after the answers to the requests before it, which the store may still be writing, and closes the socket. */
function refuseInTurn(socket: Duplex, failure: ApiError, observe: Observe): void {
  const { _httpMessage: response, parser } = socket as Duplex & Bookkeeping;
  // As after a reset, which Node tells as an error, too.
  if (!socket.writable) socket.destroy();
  else if (response?.req.complete) response.once('close', () => refuseInTurn(socket, failure, observe));
  else if (response?.headersSent) response.once('close', () => socket.destroy());
  else if (response) answerError(response, failure, observe);
  // The request that broke off has its answer already.
  else if (parser?.incoming?.complete === false) socket.destroy();
  else writeError(socket, failure, observe);
}

/** Names and values in turn. */
function headersOf(error: ApiError, id: string): string[] {
  return ['x-request-id', id, ...renderError(error).headers, 'connection', 'close'];
}

function answerError(response: ServerResponse, error: ApiError, observe: Observe): void {
  const { status, body } = renderError(error);
  const exchange = accountOf(response);
  const id = exchange?.reqId ?? randomUUID();
  // Its line is logged when the response closes.
  if (exchange) exchange.code = error.code;
  else observe({ reqId: id, status, code: error.code });
  response.writeHead(status, headersOf(error, id)).end(body, 'latin1');
}

/** Sends an error on a connection without a request, and closes it. */
export function writeError(socket: Duplex, error: ApiError, observe: Observe): void {
  const { status, body } = renderError(error);
  const id = randomUUID();
  observe({ reqId: id, status, code: error.code });
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, `date: ${new Date().toUTCString()}`];
  const headers = headersOf(error, id);
  for (let at = 0; at < headers.length; at += 2) head.push(`${headers[at]}: ${headers[at + 1]}`);
  socket.on('error', ignore);
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, 'latin1');
  // Closing while bytes are unread would reset the connection, and the response could be lost (RFC 9112, section 9.6).
  socket.resume();
  const cut = setTimeout(() => socket.destroy(), lingerMs).unref();
  socket.once('close', () => clearTimeout(cut));
}

/** Sets the time-outs, and what becomes of Expect (RFC 9110, section 10.1.1) and of CONNECT (section 9.3.6). */
export function installClientErrors(server: Server, observe: Observe): void {
  // Node gives the lesser of the two to the headers and the greater to the whole request: by default that is a minute.
  server.headersTimeout = server.requestTimeout;
  // A client that has closed its side only still waits for its answer; Node's types do not know this property.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  // Node would send 100 before any hook has looked at the key, and 417 itself: request-checks.ts refuses what cannot be met,
  // and body.ts sends 100 when the body is wanted.
  for (const event of ['checkContinue', 'checkExpectation']) {
    server.on(event, (request: IncomingMessage, response: ServerResponse) => server.emit('request', request, response));
  }
  // An empty Allow says that the resource has no methods (RFC 9110, section 10.2.1): this server is no proxy.
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    // Node has taken all its listeners away. An error that nobody hears ends the process, and responses before this one still wait
    // for the socket to drain, to time out and to close, which nobody notices of a socket that is not read.
    socket.on('error', ignore);
    socket.on('drain', () => (socket as Duplex & Bookkeeping)._httpMessage?.emit('drain'));
    socket.on('timeout', () => server.emit('timeout', socket));
    socket.resume();
    refuseInTurn(socket, new HttpError('method_not_allowed', { allow: '' }), observe);
  });
}
