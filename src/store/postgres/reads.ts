/** Collects what one turn of the event loop asks for, so that it shares a statement, and so a round trip and a snapshot. */
import { limits } from '../../core/limits.ts';

export interface Batch<Question, Answer> {
  /** Equal questions of a turn share an answer. Rejects with ApiError `service_unavailable` at the deadline. */
  ask(question: Question): Promise<Answer>;
  /** Resolves when every question is answered. Ask none after that call. */
  close(): Promise<void>;
}

interface BatchOptions<Question, Answer> {
  keyOf: (question: Question) => string;
  /** How many rows it reads at most. Default: 1. */
  rowsOf?: (question: Question) => number;
  /** Resolves to the answers, in the order of the questions. */
  send: (questions: Question[], withinMs: number) => Promise<Answer[]>;
}

interface Asked<Question, Answer> {
  question: Question;
  until: number;
  promise: Promise<Answer>;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
}

/** Statements that are under way at the same time, unless they hang. With more, each would carry fewer questions. */
const maxFlying = 2;

/** A question that has waited for so long goes out all the same: the statements under way may hang. */
const lateMs = 50;

/** Of one statement. */
const maxQuestions = 100;
const maxRows = 1000;

export function createBatch<Question, Answer>(options: BatchOptions<Question, Answer>): Batch<Question, Answer> {
  const { keyOf, rowsOf = () => 1, send } = options;
  type Own = Asked<Question, Answer>;
  const waiting = new Map<string, Own>();
  let unanswered = 0;
  let flying = 0;
  let scheduled = false;
  let timer: NodeJS.Timeout | undefined;
  let drained: (() => void) | undefined;

  /** At the end of this turn, when all its questions are known. */
  function schedule(): void {
    if (scheduled) return;
    if (flying >= maxFlying) timer ??= setTimeout(sendWaiting, lateMs);
    else {
      scheduled = true;
      setImmediate(sendWaiting);
    }
  }

  function isLate(): boolean {
    const [first] = waiting.values();
    return first !== undefined && first.until - performance.now() <= limits.statement - lateMs;
  }

  function take(): Own[] {
    const batch: Own[] = [];
    let rows = 0;
    for (const [key, asked] of waiting) {
      rows += rowsOf(asked.question);
      if (batch.length === maxQuestions || (batch.length > 0 && rows > maxRows)) break;
      batch.push(asked);
      waiting.delete(key);
    }
    return batch;
  }

  function sendWaiting(): void {
    scheduled = false;
    clearTimeout(timer);
    timer = undefined;
    while (waiting.size > 0 && (flying < maxFlying || isLate())) void fly(take());
    if (waiting.size > 0) schedule();
  }

  async function fly(batch: Own[]): Promise<void> {
    flying += 1;
    const isAnswered = await answer(batch);
    flying -= 1;
    if (waiting.size > 0) schedule();
    // One of them may be the reason why all failed.
    if (!isAnswered) for (const asked of batch) void answer([asked]);
  }

  /** Resolves to false if several failed together. */
  async function answer(batch: Own[]): Promise<boolean> {
    const [{ until }] = batch as [Own];
    const leftMs = until - performance.now();
    const isAlone = batch.length === 1;
    try {
      const answers = await send(
        batch.map(({ question }) => question),
        isAlone ? leftMs : leftMs / 2,
      );
      for (const [place, { resolve }] of batch.entries()) resolve(answers[place] as Answer);
    } catch (error) {
      if (!isAlone) return false;
      batch[0]?.reject(error);
    }
    unanswered -= batch.length;
    if (unanswered === 0) drained?.();
    return true;
  }

  return {
    ask(question) {
      const key = keyOf(question);
      const same = waiting.get(key);
      if (same) return same.promise;
      unanswered += 1;
      const asked: Own = { question, until: performance.now() + limits.statement, ...Promise.withResolvers<Answer>() };
      waiting.set(key, asked);
      schedule();
      return asked.promise;
    },
    async close() {
      if (unanswered > 0) await new Promise<void>((resolve) => (drained = resolve));
    },
  };
}
