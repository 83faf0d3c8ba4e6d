/**
 * Changes and reads that are written once for both engines: generators that yield SQL statements and receive their rows. This file names
 * what differs between the engines.
 */

/** A part of a statement whose text depends on the engine. */
class Fragment {
  readonly sqlite: string;
  readonly postgres: string;
  constructor(sqlite: string, postgres: string = sqlite) {
    this.sqlite = sqlite;
    this.postgres = postgres;
  }
}

/** Text that is part of the statement, such as a list of columns. Never of a request: each text is prepared once, and kept. */
export const raw = (text: string) => new Fragment(text);

/** Locks a row until the commit, also against rows that refer to it. SQLite has one writer at a time. */
export const forUpdate = new Fragment('', 'FOR UPDATE');
/** For outdated rows that a command deletes. Skips those that another command is deleting at the same time. */
export const skipLocked = new Fragment('', 'FOR UPDATE SKIP LOCKED');

/** Enclose a SELECT that must run once: with IN, PostgreSQL may run it again for each row. */
export const oneOf = new Fragment('IN (', '= ANY (ARRAY(');
export const endOneOf = new Fragment(')', '))');

/** A function of a JSON array, whose rows have its members as `value`. */
export const eachOf = new Fragment('json_each', 'json_array_elements');

/** Identifies a row of `idempotency`. SQLite has no rowid there; PostgreSQL uses no index for ANY of three columns. */
const retryRow = new Fragment('account_id, operation, key', 'ctid');

/** A statement. The engines prepare each text once. */
interface Step {
  texts: TemplateStringsArray;
  given: readonly unknown[];
}

/** Yields statements, and returns the outcome. */
export type Steps<Outcome> = Generator<Step, Outcome, unknown[]>;

/** A statement, whose values become parameters: `yield*` it to get its rows. An integer beyond 2^53 (pet.category_id) is a bigint there, others are numbers. */
export function* sql<Row>(texts: TemplateStringsArray, ...given: unknown[]): Steps<Row[]> {
  return (yield { texts, given }) as Row[];
}

/** Tables of rows that are kept for a time, with what identifies a row. */
const expiring = {
  message: raw('id'),
  one_time_link: raw('hash'),
  counted_attempt: raw('id'),
  idempotency: retryRow,
};

/** Deletes the `count` oldest of the rows whose `time`, a column, is at or before `last`. */
export function* sweep(
  table: keyof typeof expiring,
  time: 'created_at' | 'expires_at',
  last: number,
  count: number,
): Steps<void> {
  const row = expiring[table];
  yield* sql`
    DELETE FROM ${raw(table)} WHERE (${row}) ${oneOf}
      SELECT ${row} FROM ${raw(table)} WHERE ${raw(time)} <= ${last} ORDER BY ${raw(time)} LIMIT ${count} ${skipLocked}
    ${endOneOf}`;
}

/** The text of a statement. */
export function textFor(engine: 'sqlite' | 'postgres', texts: TemplateStringsArray, given: readonly unknown[]): string {
  let [text = ''] = texts;
  let values = 0;
  for (const [index, value] of given.entries()) {
    if (value instanceof Fragment) text += value[engine];
    else text += engine === 'sqlite' ? '?' : `$${++values}`;
    text += texts[index + 1];
  }
  return text;
}

/** The parameters of a statement. */
export const valuesOf = (given: readonly unknown[]) => given.filter((value) => !(value instanceof Fragment));
