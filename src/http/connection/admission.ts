/**
 * Decides which requests one turn of the event loop serves. A turn reads from every connection that has sent something: as long as it takes, the
 * requests of the next one have waited, and timers and the replies of the writer wait for its end.
 */
import { limits } from '../../core/limits.ts';
import type { Holder } from '../../core/places.ts';

/**
 * libuv repeats the poll phase, up to 48 times, while 1,024 events are found at once. From this number of requests on, a connection is therefore
 * not read from again until the next turn.
 */
const restFrom = 512;

/**
 * Node's own. `reading` is false if the stream is paused. Node resumes a paused stream after each response; it does not know of a handle that was
 * stopped.
 */
interface Readable {
  _handle?: { reading: boolean; readStop(): void; readStart(): void } | null;
}

/** Requests of an account that a turn serves although its time is over: so others cannot use up the whole turn. */
const maxLate = 4;

/** The account of a key that was valid when it was last looked up; undefined if there is none. */
export type HolderOf = (authorization: string | undefined) => Holder | undefined;

export interface Admission {
  /** Whether this turn may serve a request, which it then counts. */
  admits(authorization: string | undefined): boolean;
  /** Whether the turn has time left for requests that an earlier one has not served. */
  hasTime(): boolean;
  /** Call it for each request that arrives: limits their number in one turn. */
  rest(socket: object): void;
  /** Begins the next turn. */
  end(): void;
}

export function createAdmission(holderOf: HolderOf): Admission {
  /** Undefined until the first request of the turn. */
  let begunAt: number | undefined;
  let served = 0;
  /** Requests that were served although the time was over. */
  let late = 0;
  const lateOf = new Map<Holder, number>();
  let requests = 0;
  let resting: Readable[] = [];

  function elapsed(): number {
    const now = performance.now();
    begunAt ??= now;
    return now - begunAt;
  }

  /** Many accounts together must not double the time. */
  function mayBeLate(holder: Holder): boolean {
    const own = lateOf.get(holder) ?? 0;
    if (own === maxLate || late > served / 3) return false;
    lateOf.set(holder, own + 1);
    late += 1;
    return true;
  }

  function isAdmitted(authorization: string | undefined): boolean {
    const passed = elapsed();
    if (passed < limits.turn / 4) return true;
    const holder = holderOf(authorization);
    if (holder === undefined) return false;
    return passed < limits.turn || mayBeLate(holder);
  }

  return {
    admits(authorization) {
      const admitted = isAdmitted(authorization);
      if (admitted) served += 1;
      return admitted;
    },
    hasTime: () => elapsed() < limits.turn,
    rest(socket: Readable) {
      requests += 1;
      if (requests < restFrom) return;
      socket._handle?.readStop();
      resting.push(socket);
    },
    end() {
      if (resting.length > 0) {
        for (const { _handle: handle } of resting) if (handle?.reading) handle.readStart();
        resting = [];
      }
      requests = 0;
      begunAt = undefined;
      served = 0;
      late = 0;
      if (lateOf.size > 0) lateOf.clear();
    },
  };
}
