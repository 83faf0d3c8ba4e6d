/** Lets a few do something at a time, and the others wait. Networks take turns, however much each of them asks for. */
import type { Socket } from 'node:net';
import { ApiError } from '../core/errors.ts';

interface LineOptions {
  /** How many run at a time. */
  running: number;
  /** How many may wait. Default: any number. */
  waiting?: number;
  /** How many of one network may run or wait. Default: any number. */
  ofNetwork?: number;
}

export const busy = () =>
  new ApiError('service_unavailable', 'Other attempts are being checked: try again in a second.');

export function createLine({ running: places, waiting: line = Infinity, ofNetwork = Infinity }: LineOptions) {
  /** How many each network has, running or waiting. */
  const held = new Map<string, number>();
  /** Those that wait, by network. The first network has the next turn. */
  const waiting = new Map<string, (() => void)[]>();
  let all = 0;
  let running = 0;

  /** A network that waits for more goes to the end of the line. */
  function startNext(): void {
    const [[network, [start, ...others]] = ['', []]] = waiting;
    waiting.delete(network);
    if (others.length > 0) waiting.set(network, others);
    if (start) start();
    else running -= 1;
  }

  /** Resolves when it is the turn of `network`. A client that is gone leaves the line at once. */
  function waitForTurn(network: string, socket: Socket | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    function start(): void {
      socket?.off('close', leave);
      resolve();
    }
    function leave(): void {
      const others = waiting.get(network)?.filter((each) => each !== start) ?? [];
      if (others.length > 0) waiting.set(network, others);
      else waiting.delete(network);
      reject(busy());
    }
    socket?.once('close', leave);
    waiting.set(network, [...(waiting.get(network) ?? []), start]);
    return promise;
  }

  /**
   * Runs `act` when it is the turn of `network`. Rejects with ApiError `service_unavailable` if too many wait, or if the client's connection, `socket`,
   * closes before.
   */
  return async <Result>(network: string, act: () => Result | Promise<Result>, socket?: Socket) => {
    const own = held.get(network) ?? 0;
    // At most as many as are free: a few networks cannot fill the line.
    if (own >= Math.min(ofNetwork, places + line - all) || socket?.destroyed) throw busy();
    held.set(network, own + 1);
    all += 1;
    try {
      if (running < places) running += 1;
      else await waitForTurn(network, socket);
      try {
        return await act();
      } finally {
        // What runs may end without a turn of the event loop, and all of the line would run in one.
        setImmediate(startNext);
      }
    } finally {
      all -= 1;
      const left = (held.get(network) as number) - 1;
      if (left > 0) held.set(network, left);
      else held.delete(network);
    }
  };
}
