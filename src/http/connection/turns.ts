/**
 * Divides the time of the event loop fairly. A turn of it reads from every connection that has sent something: as long as it takes, the requests of the
 * next one, timers and the replies of the writer wait. A turn therefore serves requests for some milliseconds only, and holds the others. Later turns
 * serve those of whoever has spent least, and refuse the oldest. Without time, connections that were answered are read in later turns, too: a request
 * costs nothing while the kernel has it. docs/decisions/fairness.md has the reasons.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { limits } from '../../core/limits.ts';
import type { Holder, Share, Shares } from '../shares.ts';
import type { Connection } from './connection.ts';

export interface TurnOptions {
  shares: Shares;
  /** The account of the API key if that was valid lately, otherwise the network. */
  holderOf: (request: IncomingMessage) => Holder;
  /** Responds with 503. `closes`: whether the connection closes then. */
  refuse: (response: ServerResponse, closes: boolean) => void;
}

interface Held {
  holder: Holder;
  own: Waiting;
  bytes: number;
  /** performance.now() when it was held. */
  since: number;
  response: ServerResponse;
  run: () => void;
}

interface Later {
  socket: Socket;
  /** performance.now() when it was answered. */
  since: number;
}

/** Of one holder. */
interface Waiting {
  /** The newest last. */
  held: Held[];
  bytes: number;
  share: Share;
}

/** For how long a turn serves requests, in milliseconds. With 25 instead of 10, others wait longer beside dear requests, and nothing is gained. */
export const turnMs = 10;

/** For how long a turn refuses requests at most: each refusal costs a part of a read, and the client sends again. */
const refusingMs = 5;

/**
 * About how many connections a turn begins to read again, less those whose requests the store works on. With three times as many under way, creates cost
 * a tenth more; with a third, random pages do.
 */
export const readPerTurn = 150;

/** For how long a turn reads the connections that waited, in milliseconds: requests with 16 KiB of headers take 0.2 each. */
export const maxReadingMs = 5;

/** If the store is slow, so many are read anyway. */
export const leastPerTurn = 16;

/** A request that takes less is not charged while nothing is held: to find its holder would cost more than it is worth. */
const negligibleMs = 0.5;

/** Bytes of a request body that Node buffers before anybody reads it: its stream then pauses the socket. */
const maxBuffered = 64 * 1024;

/** Bytes of the bodies of all held requests. A holder may have at most as much as is free, as in shares.ts. */
const maxHeldBytes = () => (limits.bodies / 2) * maxBuffered;

/** Bytes of its body that a held request may take. */
function bytesOf({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return maxBuffered;
  return Math.min(Number(headers['content-length'] ?? 0), maxBuffered);
}

export type Turns = ReturnType<typeof createTurns>;

/** `handle` serves a request. */
export function createTurns(handle: RequestListener, options: TurnOptions) {
  const { shares, holderOf, refuse } = options;
  /** The oldest first. */
  const line = new Set<Held>();
  const waiting = new Map<Holder, Waiting>();
  /** Connections that were answered and are not read now, the oldest first. */
  const later = new Map<Holder, Later[]>();
  let bytes = 0;
  /** Whether the last turn had more requests than time. */
  let behind = false;
  let paused = false;
  let scheduled = false;
  /** When the turn began; undefined before its first request. */
  let begunAt: number | undefined;
  /** When the turn was done with its last request. */
  let doneAt: number | undefined;
  /** What it lately took to read a request, in milliseconds: a mean that forgets. */
  let readingMs = 0;

  /** Returns whether its client still waits for the response. */
  function release(held: Held): boolean {
    line.delete(held);
    bytes -= held.bytes;
    held.own.bytes -= held.bytes;
    const { headersSent, destroyed } = held.response;
    // Otherwise client-errors.ts has rejected its body, or the client is gone.
    return !headersSent && !destroyed;
  }

  function hold(request: IncomingMessage, response: ServerResponse, since: number, run: () => void): void {
    const holder = holderOf(request);
    const own = waiting.get(holder) ?? { held: [], bytes: 0, share: shares.of(holder) };
    const size = bytesOf(request);
    // Closed: otherwise its client would send again into the same turn, which would not end.
    if (size > 0 && own.bytes + size > maxHeldBytes() - bytes) return void refuse(response, true);
    const held = { holder, own, bytes: size, since, response, run };
    waiting.set(holder, own);
    own.held.push(held);
    own.bytes += size;
    line.add(held);
    bytes += size;
  }

  /** Serves the newest request of whoever has spent least, again and again, until the time is over. */
  function serveHeld(begun: number): void {
    // Shares that were empty meanwhile are forgotten.
    for (const [holder, own] of waiting) own.share = shares.of(holder);
    // Whoever has spent least is last.
    const order = [...waiting.values()].sort((one, other) => other.share.spentMs - one.share.spentMs);
    let now = begun;
    for (let next = order.pop(); next && now < begun + turnMs; next = order.pop()) {
      const { held, share } = next;
      const newest = held.pop() as Held;
      if (held.length === 0) waiting.delete(newest.holder);
      if (release(newest)) {
        newest.run();
        const end = performance.now();
        share.spentMs += end - now;
        now = end;
      }
      if (held.length > 0) insert(order, next);
    }
  }

  function refuseOldest(): void {
    const begun = performance.now();
    for (const held of line) {
      const now = performance.now();
      if (now - held.since < limits.held || now - begun > refusingMs) return;
      const { holder, own } = held;
      own.held.shift();
      if (own.held.length === 0) waiting.delete(holder);
      if (release(held)) refuse(held.response, false);
    }
  }

  /** Reads connections again: as many of each holder, less what the store works on for it, and all that have waited as long as a request may. */
  function readSome(count: number): void {
    const holders = later.size;
    const now = performance.now();
    for (const [holder, connections] of later) {
      const each = Math.ceil(Math.max(leastPerTurn / holders, count / holders - shares.of(holder).work));
      const kept = connections.findIndex(({ since }, at) => at >= each && now - since < limits.held);
      for (const { socket } of kept === -1 ? connections : connections.splice(0, kept)) socket.resume();
      if (kept === -1) later.delete(holder);
    }
  }

  function endTurn(): void {
    const now = performance.now();
    scheduled = false;
    behind = line.size > 0 || (begunAt !== undefined && now - begunAt >= turnMs);
    begunAt = undefined;
    doneAt = undefined;
    if (line.size === 0 && later.size === 0) return;
    readSome(Math.min(readPerTurn, maxReadingMs / readingMs));
    if (!paused) serveHeld(now);
    refuseOldest();
    if (line.size > 0 || later.size > 0) schedule();
  }

  function schedule(): void {
    if (!scheduled) setImmediate(endTurn);
    scheduled = true;
  }

  function enter(request: IncomingMessage, response: ServerResponse, now: number, run: () => void): void {
    begunAt ??= now;
    schedule();
    if (paused || line.size > 0 || now - begunAt >= turnMs) return void hold(request, response, now, run);
    run();
    const spentMs = performance.now() - now;
    if (spentMs > negligibleMs) shares.of(holderOf(request)).spentMs += spentMs;
  }

  /** Serves the request in this turn or a later one, or refuses it. */
  const serve: RequestListener = (request, response) => {
    const { begun } = request.record;
    // At most a tenth: the replies of the writer come between two requests, too.
    if (doneAt !== undefined) readingMs += (Math.min(begun - doneAt, maxReadingMs / 10) - readingMs) / 64;
    enter(request, response, begun, () => handle(request, response));
    doneAt = performance.now();
  };

  return {
    serve,
    /** Goes on in the same way when the body has arrived, or the key is known: what follows can take as long as to serve a hundred requests. */
    resume(request: IncomingMessage, run: () => void): void {
      const { response } = request.record.connection;
      // Otherwise its client is gone.
      if (response?.req === request) enter(request, response, performance.now(), run);
      if (doneAt !== undefined) doneAt = performance.now();
    },
    /**
     * Pauses a connection that was answered until a later turn, if turns have no time, and returns true. A trusted proxy's is always read: its next
     * request may be that of another client.
     */
    readLater({ holder, socket }: Connection): boolean {
      // One that is not writable closes.
      if (holder === undefined || !socket.writable) return false;
      const connections = later.get(holder) ?? [];
      if (connections.length === 0 && !behind) return false;
      later.set(holder, connections);
      connections.push({ socket, since: performance.now() });
      socket.pause();
      schedule();
      return true;
    },
    /** Holds all requests, until the function that it returns is called. */
    pause() {
      paused = true;
      readSome(Number.POSITIVE_INFINITY);
      return () => {
        paused = false;
      };
    },
  };
}

/** Inserts `one` into a list whose first have spent most. */
function insert(order: Waiting[], one: Waiting): void {
  let low = 0;
  let high = order.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((order[middle] as Waiting).share.spentMs > one.share.spentMs) low = middle + 1;
    else high = middle;
  }
  order.splice(low, 0, one);
}
