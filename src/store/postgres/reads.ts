/** Collects the questions of one turn of the event loop into one statement, with one round trip and one snapshot. */

interface Reads<Question, Answer> {
  /** Equal questions of a turn share an answer. */
  keyOf: (question: Question) => string;
  /** How many rows it needs at most. Default: 1. */
  rowsOf?: (question: Question) => number;
  /** Resolves to the answers, in the order of the questions. */
  send: (questions: Question[]) => Promise<Answer[]>;
}

/** Of one statement. */
const maxRows = 1000;

/** Returns a function that resolves to the answer to a question, and rejects as its statement does. */
export function collectReads<Question, Answer>({ keyOf, rowsOf = () => 1, send }: Reads<Question, Answer>) {
  type Asked = PromiseWithResolvers<Answer> & { question: Question };
  let asked = new Map<string, Asked>();

  async function answer(batch: Asked[]): Promise<void> {
    try {
      const answers = await send(batch.map(({ question }) => question));
      for (const [place, { resolve }] of batch.entries()) resolve(answers[place] as Answer);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  function sendAll(): void {
    let batch: Asked[] = [];
    let rows = 0;
    for (const each of asked.values()) {
      rows += rowsOf(each.question);
      if (rows > maxRows && batch.length > 0) {
        void answer(batch);
        batch = [];
        rows = rowsOf(each.question);
      }
      batch.push(each);
    }
    void answer(batch);
    // A new map: V8 chains the tables of a map that grows and shrinks. Once one of them is old, each answer would stay until a full collection.
    asked = new Map();
  }

  return (question: Question): Promise<Answer> => {
    const key = keyOf(question);
    const same = asked.get(key);
    if (same) return same.promise;
    // When all questions of the turn are known: between two turns, all connections are read.
    if (asked.size === 0) setImmediate(sendAll);
    const own = { question, ...Promise.withResolvers<Answer>() };
    asked.set(key, own);
    return own.promise;
  };
}
