/** Collects additions into batches, of which one is under way at a time: those that arrive meanwhile share the next commit. */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';

/** Additions of one statement. */
const maxBatch = 500;

interface Additions<Addition, Answer> {
  /** Additions with the same name go in separate statements, one after the other: the next must see what became of the first. */
  nameOf: (addition: Addition) => string | undefined;
  /** Resolves to the answers, in the order of the additions. */
  send: (additions: Addition[], withinMs: number) => Promise<Answer[]>;
}

export function collectAdditions<Addition, Answer>({ nameOf, send }: Additions<Addition, Answer>) {
  type Waiting = PromiseWithResolvers<Answer> & { addition: Addition; name: string | undefined; until: number };
  /** The oldest first. */
  let waiting: Waiting[] = [];
  let isSending = false;

  /**
   * The next batch. The time of a statement is what its oldest addition has left: those that are late go first, and fail by themselves. An addition behind
   * another of its name fails after half of its time, so that others in its statement keep the other half.
   */
  function take(): Waiting[] {
    const now = performance.now();
    const isLate = ({ until }: Waiting) => until <= now;
    const areLate = waiting.slice(0, 1).some(isLate);
    const batch: Waiting[] = [];
    const later: Waiting[] = [];
    const names = new Set<string | undefined>();
    for (const each of waiting) {
      const isRepeated = each.name !== undefined && names.has(each.name);
      names.add(each.name);
      if (isRepeated && each.until - now < limits.statementMs / 2) each.reject(new ApiError('service_unavailable'));
      else if (isRepeated || batch.length === maxBatch || isLate(each) !== areLate) later.push(each);
      else batch.push(each);
    }
    waiting = later;
    return batch;
  }

  async function sendAll(): Promise<void> {
    isSending = true;
    while (waiting.length > 0) {
      // When all additions of the turn are known.
      await nextTurn();
      const batch = take();
      const withinMs = Math.max(0, (batch[0]?.until ?? 0) - performance.now());
      try {
        const answers = await send(
          batch.map(({ addition }) => addition),
          withinMs,
        );
        for (const [place, { resolve }] of batch.entries()) resolve(answers[place] as Answer);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
      // The end of the connection may be unread behind its answer: a statement sent on it would have an unknown outcome.
      await nextTurn();
    }
    isSending = false;
  }

  return {
    /** Rejects with ApiError `service_unavailable` at the deadline. */
    add(addition: Addition): Promise<Answer> {
      const until = performance.now() + limits.statementMs;
      const own = { addition, name: nameOf(addition), until, ...Promise.withResolvers<Answer>() };
      waiting.push(own);
      if (!isSending) void sendAll();
      return own.promise;
    },
    /** The number of additions that wait for the next statement. */
    waiting: () => waiting.length,
    /** Resolves when every addition is answered. */
    async close() {
      while (isSending) await sleep(1);
    },
  };
}
