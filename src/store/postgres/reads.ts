/**
 * The reads that one turn of the event loop asks for go out as one statement, on one connection: they share a round trip and a snapshot.
 * docs/decisions/postgres.md has the reasons.
 */
import { limits } from '../../core/limits.ts';
import type { StoreState } from '../../core/pets.ts';
import { type Steps, valuesOf } from '../steps.ts';
import { unavailable } from '../store.ts';
import type { Pool } from './pool.ts';
import { rowsOf, type Shape, shapeOf, statementOf, stateOf, stateShape } from './shapes.ts';
import { elementOf, runSteps } from './sql.ts';

/** A text, and the state of the store that it was read in. The text is empty if the database returned NULL, or no row. */
interface Found {
  text: string;
  state: StoreState;
}

export interface Reads {
  /** Runs a query. Each of its statements sees every commit that was acknowledged before it was asked for. */
  run<Result>(query: () => Steps<Result>): Promise<Result>;
  /**
   * A tag that runs a SELECT of one text. `rows`: how many it reads at most. `begun`: when its time began to run (performance.now()); default: now.
   */
  find(rows: number, begun?: number): (texts: TemplateStringsArray, ...given: unknown[]) => Promise<Found>;
  /** The state of the store now. */
  state(): Promise<StoreState>;
  /** Resolves when every read is answered. Ask for none after that call. */
  close(): Promise<void>;
}

interface Asked {
  shape: Shape;
  /** An element of an array literal for each of its values. */
  elements: string[];
  rows: number;
  begun: number;
  promise: Promise<Found>;
  resolve: (found: Found) => void;
  reject: (error: unknown) => void;
}

/** Statements that are under way at the same time, unless a read has waited for `lateMs`. With more, each would carry fewer reads. */
const maxFlying = 2;
const lateMs = 5;

/** Of one statement. */
const maxReads = 100;
const maxRows = 1000;

/** A read that began before has less time than others, and is not sent with them. */
const apartMs = 100;

/** The reads of each shape in the order of their rows. */
function groupsOf(batch: Asked[]): [Shape, Asked[]][] {
  const groups = Map.groupBy(batch, ({ shape }) => shape);
  if (!groups.has(stateShape) && batch.some(({ shape }) => shape.withState)) groups.set(stateShape, []);
  return [...groups].sort(([one], [other]) => one.number - other.number);
}

/** An array of each value's elements, as parameters. */
function parametersOf(groups: [Shape, Asked[]][]): string[] {
  return groups.flatMap(([{ types }, asked]) =>
    types.map((_, index) => `{${asked.map(({ elements }) => elements[index]).join()}}`),
  );
}

/** Reads through `pool`. `stranger`: for requests without a valid key. */
export function createReads(pool: Pick<Pool, 'read'>, stranger: boolean): Reads {
  const waiting = new Map<string, Asked>();
  let unanswered = 0;
  let flying = 0;
  let scheduled = false;
  let timer: NodeJS.Timeout | undefined;
  let drained: (() => void) | undefined;

  function ask(shape: Shape, elements: string[], rows = 1, begun = performance.now()): Promise<Found> {
    const key = `${shape.number} ${elements.join()}`;
    const isApart = performance.now() - begun > apartMs;
    const same = waiting.get(key);
    if (same && !isApart) return same.promise;
    if (unanswered >= limits.waitingReads)
      return Promise.reject(unavailable(new Error('too many requests are waiting for the database')));
    unanswered += 1;
    const asked: Asked = { shape, elements, rows, begun, ...Promise.withResolvers<Found>() };
    if (isApart) void send([asked]);
    else {
      waiting.set(key, asked);
      schedule();
    }
    return asked.promise;
  }

  async function askRows(texts: TemplateStringsArray, ...given: unknown[]): Promise<unknown[]> {
    const values = valuesOf(given);
    const { text } = await ask(shapeOf(texts, given, values, true), values.map(elementOf));
    return rowsOf(text);
  }

  function countAnswer(): void {
    unanswered -= 1;
    if (unanswered === 0) drained?.();
  }

  /** At the end of this turn, when all its reads are known. */
  function schedule(): void {
    if (!scheduled) setImmediate(sendWaiting);
    scheduled = true;
  }

  function takeWaiting(): Asked[] {
    const batch: Asked[] = [];
    let rows = 0;
    for (const [key, asked] of waiting) {
      rows += asked.rows;
      if (batch.length === maxReads || (batch.length > 0 && rows > maxRows)) break;
      batch.push(asked);
      waiting.delete(key);
    }
    return batch;
  }

  function sendWaiting(): void {
    scheduled = false;
    clearTimeout(timer);
    for (let [first] = waiting.values(); first; [first] = waiting.values()) {
      if (flying >= maxFlying && performance.now() - first.begun < lateMs) {
        timer = setTimeout(sendWaiting, lateMs);
        return;
      }
      void send(takeWaiting());
    }
  }

  async function send(batch: Asked[]): Promise<void> {
    flying += 1;
    const again = await answer(batch);
    flying -= 1;
    if (waiting.size > 0) schedule();
    for (const asked of again) void send([asked]);
  }

  /** Resolves to the reads that must be asked for again, each alone. */
  async function answer(batch: Asked[]): Promise<Asked[]> {
    const [{ begun }] = batch as [Asked];
    const leftMs = begun + limits.statement - performance.now();
    const isAlone = batch.length === 1;
    try {
      // One of several reads may be the reason why all are late: half of the time is for those that are not.
      return await run(batch, isAlone ? leftMs : leftMs / 2);
    } catch (error) {
      if (!isAlone) return batch;
      batch[0]?.reject(error);
      countAnswer();
      return [];
    }
  }

  /** Resolves to the reads whose text was too much for one answer. */
  async function run(batch: Asked[], withinMs: number): Promise<Asked[]> {
    const groups = groupsOf(batch);
    const statement = statementOf(groups.map(([shape]) => shape));
    const parameters = parametersOf(groups);
    const rows = await pool.read((sql) => sql.texts(statement, parameters), { withinMs, stranger });
    const stateRow = rows.find(([place]) => groups[place]?.[0] === stateShape);
    const state = stateOf(stateRow?.[2] ?? '');
    const again: Asked[] = [];
    for (const [place, n, text] of rows) {
      const asked = groups[place]?.[1][n - 1];
      if (!asked) continue;
      if (text === null) again.push(asked);
      else {
        asked.resolve({ text, state });
        countAnswer();
      }
    }
    return again;
  }

  return {
    run: (query) => runSteps(askRows, query()),
    find:
      (rows, begun) =>
      (texts, ...given) => {
        const values = valuesOf(given);
        return ask(shapeOf(texts, given, values, false), values.map(elementOf), rows, begun);
      },
    state: async () => (await ask(stateShape, [])).state,
    async close() {
      if (unanswered > 0) await new Promise<void>((resolve) => (drained = resolve));
    },
  };
}
