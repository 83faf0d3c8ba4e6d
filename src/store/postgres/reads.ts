/** Collects the questions of one turn of the event loop into one statement, with one round trip and one snapshot. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { afterTurns } from '../after-turns.ts';

interface BatchOptions<Question, Answer> {
  /** Equal questions that wait share an answer. Without it, none are equal. */
  keyOf?: (question: Question) => string;
  /**
   * Questions for which this returns the same text go out one after the other, in separate statements. Such a question fails after half of its time, so
   * that the questions in its statement keep the other half.
   */
  alone?: (question: Question) => string | undefined;
  /** How many rows it needs at most. Default: 1. */
  rowsOf?: (question: Question) => number;
  /** For how many turns of the event loop questions are collected. Default: 1. */
  turns?: number;
  /** Maximum number of statements in flight. With more, each would carry fewer questions. Default: 2. */
  maxFlying?: number;
  /** A statement that takes longer no longer counts as in flight: it may hang. Default: 50. */
  lateMs?: number;
  /** Resolves to the answers, in the order of the questions. */
  send: (questions: Question[], withinMs: number) => Promise<Answer[]>;
}

/** Of one statement. */
const maxRows = 1000;

export function createBatch<Question, Answer>(options: BatchOptions<Question, Answer>) {
  const { keyOf, alone, rowsOf = () => 1, turns = 1, maxFlying = 2, lateMs = 50, send } = options;
  /** `single`: the result of `alone`, which is called once: thousands of questions may wait for many statements. */
  type Own = PromiseWithResolvers<Answer> & { question: Question; single: string | undefined; until: number };
  type Entry = [key: string | number, own: Own];
  /** The oldest first. */
  let waiting = new Map<string | number, Own>();
  /** Numbers the questions. An object as a key would be given a hash of its own. */
  let asked = 0;
  let flying = 0;

  function take(): Own[] {
    const batch: Own[] = [];
    const later: Entry[] = [];
    const singles = new Set<string>();
    const now = performance.now();
    let rows = 0;
    let isFull = false;
    for (const entry of waiting) {
      const [, own] = entry;
      const { single } = own;
      const isRepeated = single !== undefined && singles.has(single);
      if (!isRepeated) rows += rowsOf(own.question);
      // The time of a statement is what its oldest question has left: late ones fail by themselves.
      const isApart = own.until <= now !== (batch[0] ?? own).until <= now;
      isFull ||= batch.length > 0 && (rows > maxRows || isApart);
      if (isRepeated && own.until - now < limits.statementMs / 2) own.reject(new ApiError('service_unavailable'));
      else if (isFull || isRepeated) later.push(entry);
      else batch.push(own);
      if (single !== undefined) singles.add(single);
    }
    // A new map: V8 chains the tables of a map that grows and shrinks. Once one of them is old, each answer would stay until a full collection.
    waiting = new Map(later);
    return batch;
  }

  function sendWaiting(): void {
    while (waiting.size > 0 && flying < maxFlying) void fly(take());
  }

  const sendSoon = () => afterTurns(turns, sendWaiting);

  async function fly(batch: Own[]): Promise<void> {
    let counts = true;
    flying += 1;
    const land = () => {
      if (counts) flying -= 1;
      counts = false;
      sendSoon();
    };
    const late = setTimeout(land, lateMs);
    const withinMs = Math.max(0, Math.min(...batch.map(({ until }) => until)) - performance.now());
    const questions = batch.map(({ question }) => question);
    const [outcome] = await Promise.allSettled([send(questions, withinMs)]);
    clearTimeout(late);
    // First, so that the database works while the answers are sent.
    land();
    for (const [place, { resolve, reject }] of batch.entries())
      if (outcome.status === 'fulfilled') resolve(outcome.value[place] as Answer);
      else reject(outcome.reason);
  }

  return {
    /** Rejects with ApiError `service_unavailable` at the deadline. */
    ask(question: Question): Promise<Answer> {
      asked += 1;
      const key = keyOf?.(question) ?? asked;
      const same = waiting.get(key);
      if (same) return same.promise;
      const until = performance.now() + limits.statementMs;
      const own = { question, single: alone?.(question), until, ...Promise.withResolvers<Answer>() };
      // When all questions of the turn are known. If some wait already, they go then, or when a statement has ended.
      if (waiting.size === 0) sendSoon();
      waiting.set(key, own);
      return own.promise;
    },
    /** The number of questions that wait for the next statement. */
    waiting: () => waiting.size,
    /** Resolves when every question is sent and answered. */
    async close() {
      while (waiting.size > 0 || flying > 0) await sleep(1);
    },
  };
}
