/** Runs the statements of commands and queries on an SQLite connection. */
import type Database from 'better-sqlite3';
import { Fragment, type Steps } from '../steps.ts';
import type { Connection } from './connection.ts';

type Statement = Database.Statement<unknown[], unknown>;

/** Returns a function that runs steps synchronously, in the transaction that is open, if any. It throws SQLite errors. */
export function createRunner(connection: Connection): <Result>(steps: Steps<Result>) => Result {
  const prepared = new Map<TemplateStringsArray, Statement>();

  function prepare(texts: TemplateStringsArray, given: readonly unknown[]): Statement {
    const text = given.reduce<string>(
      (before, value, at) => `${before}${value instanceof Fragment ? value.sqlite : '?'}${texts[at + 1]}`,
      texts[0] as string,
    );
    // Every integer of these tables is below 2^53.
    const statement = connection.prepare<unknown[], unknown>(text).safeIntegers(false);
    prepared.set(texts, statement);
    return statement;
  }

  return (steps) => {
    let step = steps.next();
    while (!step.done) {
      const { texts, given } = step.value;
      const statement = prepared.get(texts) ?? prepare(texts, given);
      const values = given.filter((value) => !(value instanceof Fragment));
      if (statement.reader) step = steps.next(statement.all(...values));
      else {
        statement.run(...values);
        step = steps.next([]);
      }
    }
    return step.value;
  };
}
