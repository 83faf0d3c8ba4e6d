/**
 * Decides which requests are refused while more arrive than the event loop can serve, so that the others are served soon. One turn of the event
 * loop reads from every connection that has sent something: as long as a turn takes, the requests of the next one have waited.
 */
import { limits } from '../../core/limits.ts';
import type { Holder } from '../../core/places.ts';

/** Turns are compared with their limit over an interval of this time, and of this number of turns at least: one pause of the process is no overload. */
const intervalMs = 250;
const intervalTurns = 3;

/**
 * libuv repeats the poll phase, up to 48 times, while 1,024 events are found at once. With more connections than that it would take seconds, and
 * timers, new writes and their replies wait for its end. From this number of requests on, a connection is therefore not read from again until
 * the next turn.
 */
const restFrom = 512;

/**
 * Node's own. `reading` is false if the stream is paused. Node resumes a paused stream after each response; it does not know of a handle that was
 * stopped.
 */
interface Readable {
  _handle?: { reading: boolean; readStop(): void; readStart(): void } | null;
}

export interface Admission {
  /** Whether a request that arrives now may be served. `holder`: the account of its valid key; undefined if it has none. */
  admits(holder: Holder | undefined): boolean;
  /** Counts a request that is served. */
  count(holder: Holder | undefined): void;
  /** Whether every request is admitted now. Call it for each request before anything else. */
  admitsAll(): boolean;
  /** Call it for each request: limits the number of requests in one turn. */
  rest(socket: object): void;
}

export function createAdmission(): Admission {
  let begunAt = 0;
  let idleBefore = performance.eventLoopUtilization().idle;
  /** Whether all turns of the last interval were long. */
  let long = false;
  let interval = { since: 0, turns: 0, shortest: Number.POSITIVE_INFINITY };
  let served = 0;
  /** How many of them were served although the time was over. */
  let servedLate = 0;
  const servedBy = new Map<Holder | undefined, number>();
  let requests = 0;
  let resting: Readable[] = [];

  function end(): void {
    requests = 0;
    for (const { _handle: handle } of resting) if (handle?.reading) handle.readStart();
    resting = [];
    const endedAt = performance.now();
    const turn = endedAt - begunAt;
    begunAt = 0;
    served = 0;
    servedLate = 0;
    if (servedBy.size > 0) servedBy.clear();
    interval.shortest = Math.min(interval.shortest, turn);
    interval.turns += 1;
    if (interval.turns < intervalTurns || endedAt - interval.since < intervalMs) return;
    long = interval.shortest > limits.turn;
    interval = { since: endedAt, turns: 0, shortest: Number.POSITIVE_INFINITY };
  }

  function begin(): void {
    begunAt = performance.now();
    const { idle } = performance.eventLoopUtilization();
    if (idle - idleBefore > limits.turn) interval.shortest = 0;
    idleBefore = idle;
    setImmediate(end);
  }

  return {
    admitsAll() {
      if (begunAt === 0) begin();
      return !long;
    },
    admits(holder) {
      if (!long) return true;
      const elapsed = performance.now() - begunAt;
      if (elapsed < (holder === undefined ? limits.turn / 4 : limits.turn)) return true;
      // Many accounts with one request each must not double the time again.
      if (holder === undefined || servedLate > served / 2) return false;
      // An account alone has all that was served.
      const holders = servedBy.has(holder) ? servedBy.size : servedBy.size + 1;
      if ((servedBy.get(holder) ?? 0) >= served / holders) return false;
      servedLate += 1;
      return true;
    },
    rest(socket: Readable) {
      requests += 1;
      if (requests < restFrom) return;
      socket._handle?.readStop();
      resting.push(socket);
    },
    count(holder) {
      if (!long) return;
      served += 1;
      servedBy.set(holder, (servedBy.get(holder) ?? 0) + 1);
    },
  };
}
