/**
 * While more requests arrive than the event loop can serve: holds those for which a turn has no time. Later turns serve the newest of them with the
 * time that they have left, and refuse the oldest. docs/decisions/overload.md has the reasons.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { ApiKey } from '../../core/accounts.ts';
import type { ApiError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { addressOfRaw } from '../addresses.ts';
import { renderError } from '../errors.ts';
import { linesOf, sendHead } from '../head.ts';
import { clientClosed, traceIdOf } from '../request-log.ts';
import type { Admission } from './admission.ts';
import type { Sending } from './client-errors.ts';

export interface OverloadOptions {
  admission: Admission;
  /** The key, if it was valid when it was last looked up. */
  keyOf: (authorization: string | undefined) => Pick<ApiKey, 'id'> | undefined;
  /** Whether the event loop was blocked for a second. */
  isBlocked: () => boolean;
  /** True while the process is about to stop: responses then carry Connection: close. */
  draining: () => boolean;
  /** Whether an address is that of a trusted proxy. */
  isProxy: (address: string) => boolean;
  onRefused: () => void;
  /** Called before the first request of a turn, if requests were served after the poll phase: it must not share their snapshot of the store. */
  onTurn: () => void;
  error: ApiError;
  sending: Sending;
}

interface Held {
  request: IncomingMessage;
  response: ServerResponse;
  heldAt: number;
}

/** The part of a turn's time in which held requests are refused at most: each refusal costs a part of a read, and the client sends again. */
const refusingShare = 0.2;

/** Bytes of a request body that Node buffers before anybody reads it: its stream then pauses the socket. */
const maxBuffered = 64 * 1024;

/** Bytes of its body that a held request may take. */
function bytesOf({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return maxBuffered;
  return Math.min(Number(headers['content-length'] ?? 0), maxBuffered);
}

/** Call it before anything else replaces the listener of requests. */
export function installOverload(server: Server, options: OverloadOptions): void {
  const { admission, keyOf, isBlocked, draining, isProxy, onRefused, onTurn, error, sending } = options;
  const { status, lines, body } = renderError(error);
  const [handle] = server.listeners('request') as [RequestListener];
  server.removeAllListeners('request');
  /** The oldest first. Those without a valid key are served last, and refused first. */
  const keyed: Held[] = [];
  const strangers: Held[] = [];
  /** Of the bodies of all held requests. */
  let bytes = 0;
  let servedHeld = false;
  let scheduled = false;

  function record({ request, heldAt }: Held, reqId: string, answered: boolean): void {
    const { headers, method = '' } = request;
    sending.onEnd({
      ...{ reqId, method, ms: performance.now() - heldAt, address: addressOfRaw(request, isProxy) },
      key: keyOf(headers.authorization)?.id,
      ...{ status: answered ? status : clientClosed, traceId: traceIdOf(headers.traceparent) },
      ...(answered ? { code: error.code } : { aborted: true }),
    });
  }

  function refuse(held: Held): void {
    const { request, response } = held;
    const reqId = randomUUID();
    const cors = linesOf(sending.corsHeaders(request.headers.origin));
    const close = draining() ? 'connection: close\r\n' : '';
    sendHead(response, status, `x-request-id: ${reqId}\r\n${lines}${cors}${close}`);
    response.end(body, 'latin1');
    onRefused();
    record(held, reqId, true);
  }

  /** Whether the client still waits. Call it once, when the request is no longer held. */
  function waits(held: Held): boolean {
    bytes -= bytesOf(held.request);
    // client-errors.ts has rejected its body.
    if (held.response.headersSent) return false;
    if (!held.response.destroyed && !held.request.socket.destroyed) return true;
    record(held, randomUUID(), false);
    return false;
  }

  function serveHeld(): void {
    while (admission.hasTime()) {
      const held = keyed.pop() ?? strangers.pop();
      if (!held) break;
      if (!waits(held)) continue;
      servedHeld = true;
      handle(held.request, held.response);
    }
  }

  /** Refuses the oldest of a queue that have waited for too long. */
  function refuseHeld(queue: Held[]): void {
    let now = performance.now();
    const until = now + (refusingShare * limits.turn) / 2;
    let count = 0;
    for (const held of queue) {
      const waited = now - held.heldAt;
      if (waited < limits.held || (now > until && waited < 3 * limits.held)) break;
      count += 1;
      if (waits(held)) refuse(held);
      now = performance.now();
    }
    queue.splice(0, count);
  }

  function endTurn(): void {
    scheduled = false;
    serveHeld();
    refuseHeld(strangers);
    refuseHeld(keyed);
    admission.end();
    if (keyed.length + strangers.length > 0) schedule();
  }

  function schedule(): void {
    if (!scheduled) setImmediate(endTurn);
    scheduled = true;
  }

  server.on('request', (request, response) => {
    if (servedHeld) onTurn();
    servedHeld = false;
    schedule();
    admission.rest(request.socket);
    const { authorization } = request.headers;
    if (!isBlocked() && admission.admits(authorization)) return handle(request, response);
    const held: Held = { request, response, heldAt: performance.now() };
    bytes += bytesOf(request);
    if (isBlocked() || bytes > limits.bodiesInFlight * maxBuffered) {
      if (waits(held)) refuse(held);
    } else (keyOf(authorization) === undefined ? strangers : keyed).push(held);
  });
}
