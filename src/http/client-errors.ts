/** Answers what reaches no route, because Node's parser rejects it: broken HTTP, CONNECT, and requests that do not arrive in time. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { type ApiError, codeOf, type ErrorCode } from '../core/errors.ts';
import { closeSoon, connectionOf } from './connections.ts';
import { errorResponse, HttpError, sendError } from './errors.ts';
import { headOf, standingHeaders } from './headers.ts';
import type { OnEnd } from './log.ts';
import { plainAddress } from './networks.ts';

const parserCodes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

const ignore = () => undefined;

interface ClientErrorOptions {
  onEnd: OnEnd;
  /** The headers of every response to a page of `origin`. */
  headersFor: (origin?: string) => Record<string, string>;
}

export function createClientErrors({ onEnd, headersFor }: ClientErrorOptions) {
  /** Sends an error on a connection that has no request, and closes the connection. */
  function write(socket: Socket, error: ApiError, origin?: string): void {
    const { status, headers, body } = errorResponse(error);
    const id = randomUUID();
    onEnd({ reqId: id, status, address: plainAddress(socket.remoteAddress) || undefined, code: error.code });
    socket.on('error', ignore);
    const own = { date: new Date().toUTCString(), 'x-request-id': id, 'content-length': String(body.length) };
    socket.write(
      `${headOf(status, { ...standingHeaders, ...own, ...headersFor(origin), ...headers, connection: 'close' })}\r\n${body}`,
    );
    // Unread bytes would reset the connection.
    socket.resume();
    closeSoon(socket);
  }

  /** Sends `error` behind the responses to earlier requests, and closes the connection. */
  function refuse(socket: Socket, error: ApiError, origin?: string): void {
    const { unanswered, last } = connectionOf(socket);
    const reply = unanswered.at(-1)?.reply;
    // The fault is in the body of the last request.
    const isInBody = last?.complete === false;
    // The client has reset the connection, for example: Node reports that as a client error, too.
    if (!socket.writable || (isInBody && !reply)) socket.destroy();
    else if (!reply) write(socket, error, origin);
    else if (isInBody && !reply.raw.headersSent) sendError(error, reply.request, reply);
    else reply.raw.once('close', () => refuse(socket, error, origin));
  }

  return {
    refuse,
    /** For Fastify's option of this name. */
    clientErrorHandler(error: Error, socket: Socket): void {
      const connection = connectionOf(socket);
      if (connection.isFaulty) return;
      connection.isFaulty = true;
      // If the client ends its side now, Node would close the connection before this response.
      socket.removeAllListeners('end');
      refuse(socket, new HttpError(parserCodes[codeOf(error)] ?? 'bad_request', { connection: 'close' }));
    },
    /** This server is no proxy. An empty Allow header says that no method is allowed (RFC 9110, sections 9.3.6 and 10.2.1). */
    refuseConnect(server: Server): void {
      server.on('connect', ({ headers }: IncomingMessage, socket: Socket) => {
        // Node has removed its listeners: without one of errors, an error would end the process. Without reading, a close is not noticed.
        socket.on('error', ignore).resume();
        refuse(socket, new HttpError('method_not_allowed', { allow: '', connection: 'close' }), headers.origin);
      });
    },
  };
}
