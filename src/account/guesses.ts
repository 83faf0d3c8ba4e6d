/** Estimates how many guesses find a password, in a thread: an estimate takes up to 0.2 s of a processor. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Reply, Request } from './guesses-thread.ts';

export interface Guesses {
  /**
   * Resolves to the power of ten of the guesses that find the password of an account, or to undefined if the estimate takes too long. Estimates
   * run one after the other. Rejects with ApiError `service_unavailable` if the thread fails.
   */
  powerOf(request: Request): Promise<number | undefined>;
}

/** The dictionaries take 40 MB, and are read in 0.4 s of a processor. */
const resourceLimits = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 };
const maxStartMs = 10_000;

/** New passwords are rare, and the dictionaries take memory that the rest of the server needs. */
const stopAfterMs = 60_000;

/** Resolves to the power of the next reply, or to undefined if it takes longer. Rejects if the thread fails. */
async function replyOf(thread: Worker, maxMs: number): Promise<number | undefined> {
  const signal = AbortSignal.timeout(maxMs);
  try {
    for (;;) {
      const [reply]: Reply[] = await once(thread, 'message', { signal });
      if (reply?.type === 'guesses-reply') return reply.power;
    }
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

/** The thread starts with an estimate, and ends `idleMs` after the last one. `maxMs`: the time of an estimate. */
export function createGuesses(maxMs = limits.passwordEstimate, idleMs = stopAfterMs): Guesses {
  let thread: Worker | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let idle: NodeJS.Timeout | undefined;

  function stop(): void {
    thread?.terminate();
    thread = undefined;
  }

  async function start(): Promise<Worker> {
    thread = new Worker(new URL('./guesses-thread.ts', import.meta.url), { resourceLimits });
    thread.unref();
    thread.on('error', stop);
    if ((await replyOf(thread, maxStartMs)) === undefined) throw new Error('the thread does not start');
    return thread;
  }

  async function estimate(request: Request): Promise<number | undefined> {
    clearTimeout(idle);
    try {
      const started = thread ?? (await start());
      started.postMessage(request);
      const power = await replyOf(started, maxMs);
      if (power === undefined) stop();
      return power;
    } catch (cause) {
      stop();
      throw new ApiError('service_unavailable', undefined, { cause });
    } finally {
      idle = setTimeout(stop, idleMs).unref();
    }
  }

  return {
    powerOf(request) {
      const own = last.then(() => estimate(request));
      last = own.catch(() => undefined);
      return own;
    },
  };
}
