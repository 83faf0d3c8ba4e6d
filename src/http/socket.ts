/** The requests that Fastify never sees, or sees too late: broken HTTP, expectations, CONNECT, time-outs. */
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ErrorCode, Failure } from '../errors.ts';
import { failureHeaders } from './errors.ts';

const parserCodes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Answers what Node's HTTP parser refused, on the bare socket, and closes it. */
export function refuseConnection(error: Error & { code?: string }, socket: Duplex): void {
  const { headersSent } = (socket as { _httpMessage?: ServerResponse })._httpMessage ?? {};
  if (error.code === 'ECONNRESET' || !socket.writable || headersSent) {
    socket.destroy();
    return;
  }
  writeFailure(socket, new Failure(parserCodes[String(error.code)] ?? 'bad_request'));
}

function writeFailure(socket: Duplex, failure: Failure): void {
  const body = JSON.stringify(failure.body());
  const headers = {
    date: new Date().toUTCString(),
    connection: 'close',
    'content-length': String(Buffer.byteLength(body)),
    ...failureHeaders(failure, randomUUID()),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status]}\r\n${lines.join('')}\r\n${body}`);
  // end() alone would wait for the client to close its side.
  socket.once('finish', () => socket.destroy());
}

/** Sets the answers to Expect (RFC 9110, section 10.1.1) and to CONNECT (section 9.3.6). */
export function installSocketAnswers(server: Server): void {
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const failure = new Failure('expectation_failed');
    const body = JSON.stringify(failure.body());
    const headers = {
      ...failureHeaders(failure, randomUUID()),
      connection: 'close',
      'content-length': Buffer.byteLength(body),
    };
    response.writeHead(failure.status, headers).end(body);
  });
  // Node would send 100 before any hook has looked at the key; content.ts sends it when the body is wanted.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    server.emit('request', request, response);
  });
  // An empty Allow says that the resource has no methods (RFC 9110, section 10.2.1): this server is no proxy.
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    writeFailure(socket, new Failure('method_not_allowed', undefined, { headers: { allow: '' } }));
  });
}
