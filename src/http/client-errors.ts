/** Answers what reaches no route, because Node's parser rejects it: broken HTTP, and requests that do not arrive in time. */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { type ApiError, codeOf, type ErrorCode } from '../core/errors.ts';
import { closeSoon, connectionOf, endAfter, isOutstanding } from './connections.ts';
import { errorResponse, HttpError, sendError } from './errors.ts';
import { headOf, standingHeaders } from './headers.ts';
import type { OnEnd } from './log.ts';
import { plainAddress } from './networks.ts';

const parserCodes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Returns a function for Fastify's option `clientErrorHandler`. */
export function createClientErrorHandler(onEnd: OnEnd) {
  /** Sends an error on a connection that has no request, and closes the connection. */
  function write(socket: Socket, error: ApiError): void {
    const { status, headers, body } = errorResponse(error);
    const id = randomUUID();
    onEnd({ reqId: id, status, address: plainAddress(socket.remoteAddress) || undefined, code: error.code });
    socket.on('error', () => undefined);
    const own = { date: new Date().toUTCString(), 'x-request-id': id, 'content-length': String(body.length) };
    socket.write(`${headOf(status, { ...standingHeaders, ...own, ...headers })}\r\n${body}`);
    // Unread bytes would reset the connection.
    socket.resume();
    closeSoon(socket);
  }

  return (thrown: Error, socket: Socket): void => {
    // It closes already. The parser reports an error again for each packet that follows.
    if (!socket.writable) return;
    // If the client ends its side now, Node would close the connection before this response.
    socket.removeAllListeners('end');
    const error = new HttpError(parserCodes[codeOf(thrown)] ?? 'bad_request', { connection: 'close' });
    const { last } = connectionOf(socket);
    // Of a body whose request has been answered, discardBody ends the connection.
    const isInBody = last?.request.raw.complete === false;
    if (isOutstanding(last)) {
      endAfter(last);
      if (isInBody && !last.raw.headersSent) sendError(error, last.request, last);
    } else if (!isInBody) write(socket, error);
  };
}
