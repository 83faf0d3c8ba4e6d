/**
 * Refuses requests for overload before Fastify sees them. The first refusal on a connection goes through Node's parser. From then on a chunk of
 * exactly one request is refused without it, at half the cost. Whatever else arrives takes Node's way.
 */
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, type RequestListener, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { ApiError } from '../../core/errors.ts';
import type { Holder } from '../../core/places.ts';
import { renderError } from '../errors.ts';
import { traceIdOf } from '../request-log.ts';
import type { Admission } from './admission.ts';
import type { Sending } from './client-errors.ts';
import { readWhole, type WholeRequest } from './whole-request.ts';

/** Node's own state of a socket. */
interface Connection extends Socket {
  /** The response that is being sent. */
  _httpMessage?: ServerResponse | null;
  /** `incoming`: the request that is being read or was read last. */
  parser?: { incoming: IncomingMessage | null } | null;
}

export interface RefusalOptions {
  admission: Admission;
  /** The account of a key that was valid when it was last looked up. */
  holderOf: (authorization: string | undefined) => Holder | undefined;
  /** Whether the event loop was blocked for a second. */
  isBlocked: () => boolean;
  /** True while the process is about to stop: responses then carry Connection: close. */
  draining: () => boolean;
  onRefused: () => void;
  error: ApiError;
  sending: Sending;
}

const watched = Symbol('watched');

/** Call it before anything else replaces the listener of requests. */
export function installRefusals(server: Server, options: RefusalOptions): void {
  const { admission, holderOf, isBlocked, draining, onRefused, error, sending } = options;
  const { status, headers, body } = renderError(error);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nx-request-id: `;
  const [handle] = server.listeners('request') as [RequestListener];
  server.removeAllListeners('request');

  function refuse({ headers: given, method = '', socket }: IncomingMessage, response: ServerResponse): void {
    const id = randomUUID();
    const all = ['x-request-id', id].concat(headers, sending.corsHeaders(given.origin));
    if (draining()) all.push('connection', 'close');
    response.writeHead(status, all).end(body, 'latin1');
    record(id, method, given.traceparent, socket);
  }

  function record(reqId: string, method: string, traceparent: string | string[] | undefined, socket: Socket): void {
    onRefused();
    const { remoteAddress: address } = socket;
    sending.onEnd({ reqId, method, status, address, traceId: traceIdOf(traceparent), code: error.code });
  }

  let rest = '';
  let restAt = 0;
  /** What Node adds to the headers, and the body; new each second. */
  function restOf(now: number): string {
    if (now - restAt >= 1000) {
      restAt = now - (now % 1000);
      const date = new Date(now).toUTCString();
      const timeout = Math.floor(server.keepAliveTimeout / 1000);
      rest = `Date: ${date}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${timeout}\r\n\r\n${body}`;
    }
    return rest;
  }

  const lines = linesOf(headers);
  function refuseWhole(socket: Connection, { method, origin, traceparent }: WholeRequest): void {
    const id = randomUUID();
    const cors = linesOf(sending.corsHeaders(origin));
    socket.write(`${head}${id}\r\n${lines}${cors}${restOf(Date.now())}`, 'latin1');
    record(id, method, traceparent, socket);
  }

  /** Sees what arrives before Node's parser does. */
  function watch(socket: Connection & { [watched]?: true }): void {
    if (socket[watched]) return;
    socket[watched] = true;
    // Node removes its listeners of these events with the first listener of data: a pause would then let 64 KiB more arrive.
    const onPause = socket.listeners('pause').slice(0, 1) as (() => void)[];
    const onResume = socket.listeners('resume').slice(0, 1) as (() => void)[];
    const [parse] = socket.listeners('data') as [(bytes: Buffer) => void];
    /** Whether the next byte begins a request. */
    let between = false;
    socket.on('data', (bytes: Buffer) => {
      const { parser } = socket;
      // CONNECT has ended the parser.
      if (!parser) return;
      const request = admission.admitsAll() ? undefined : readWhole(bytes);
      const busy = socket._httpMessage || socket.writableLength > 0 || draining();
      if (request && between && !busy && !admission.admits(holderOf(request.authorization))) {
        admission.rest(socket);
        return refuseWhole(socket, request);
      }
      const last = parser.incoming;
      parse(bytes);
      between = request !== undefined && parser.incoming !== last && isAllOf(request, parser.incoming);
    });
    socket.removeListener('data', parse);
    for (const listener of onPause) socket.on('pause', listener);
    for (const listener of onResume) socket.on('resume', listener);
  }

  server.on('request', (request, response) => {
    const all = admission.admitsAll() && !isBlocked();
    if (all) {
      admission.rest(request.socket);
      return handle(request, response);
    }
    const holder = holderOf(request.headers.authorization);
    if (!isBlocked() && admission.admits(holder)) {
      admission.count(holder);
      admission.rest(request.socket);
      return handle(request, response);
    }
    refuse(request, response);
    watch(request.socket);
    admission.rest(request.socket);
  });
}

/** Whether Node has parsed the same as `request`. Otherwise the bytes belong to a message that began before them. */
function isAllOf(request: WholeRequest, parsed: IncomingMessage | null): boolean {
  if (!parsed?.complete) return false;
  return (
    parsed.url === request.url && parsed.method === request.method && parsed.rawHeaders.length === 2 * request.fields
  );
}

/** `headers`: alternating names and values. */
function linesOf(headers: readonly string[]): string {
  let lines = '';
  for (let at = 0; at < headers.length; at += 2) lines += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return lines;
}
