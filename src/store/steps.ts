/**
 * Changes and reads that are written once for both engines: generators that yield SQL statements and are given back their rows. What differs
 * between the engines is named here. Integers may come back as numbers, bigints or decimal text.
 */

/** A part of a statement whose text depends on the engine. */
export class Fragment {
  readonly sqlite: string;
  readonly postgres: string;
  constructor(sqlite: string, postgres: string = sqlite) {
    this.sqlite = sqlite;
    this.postgres = postgres;
  }
}

/** Text that is part of the statement, such as a list of columns: always the same text in the same place. */
export const raw = (text: string) => new Fragment(text);

/** Locks a row until the commit, also against rows that refer to it. SQLite has one writer at a time. */
export const forUpdate = new Fragment('', 'FOR UPDATE');
/** For rows that a command deletes because they are out of date: another command may be deleting them already. */
export const skipLocked = new Fragment('', 'FOR UPDATE SKIP LOCKED');

/** Between these, a SELECT whose rows are found once: with IN, PostgreSQL may run it again for each row. */
export const oneOf = new Fragment('IN (', '= ANY (ARRAY(');
export const endOneOf = new Fragment(')', '))');

/** Each statement is prepared once, by the place of its texts in the source. */
interface Step {
  texts: TemplateStringsArray;
  given: readonly unknown[];
}

/** Yields statements, and returns the outcome. */
export type Steps<Outcome> = Generator<Step, Outcome, unknown[]>;

/** A statement, whose values become parameters: `yield*` it to get its rows. */
export function* sql<Row>(texts: TemplateStringsArray, ...given: unknown[]): Steps<Row[]> {
  return (yield { texts, given }) as Row[];
}

/** Bytes from their hexadecimal form, in which they cross to the writer's thread. */
export const bytes = (hex: string) => Buffer.from(hex, 'hex');
