/** Runs SQL on one connection: a tag whose values become parameters, never text. */
import type pg from 'pg';
import { type Steps, textFor, valuesOf } from '../steps.ts';
import { StandbyError } from './errors.ts';

// biome-ignore lint/suspicious/noExplicitAny: the columns depend on the statement.
type AnyRow = Record<string, any>;

/** A statement that several places in the source make together. Without a name it is not prepared. */
export interface Prepared {
  name?: string;
  text: string;
}

/** A row of a statement of `shapes.ts`: the place of the shape, the read's own place among those of the shape from 1, and its text. */
type TextRow = [shape: number, n: number, text: string | null];

export interface Sql {
  /** A prepared statement, if the connection allows those. */
  <Rows extends object[] = AnyRow[]>(texts: TemplateStringsArray, ...values: unknown[]): Promise<Rows>;
  /** Without values, `text` may hold several statements. */
  unsafe<Rows extends object[] = AnyRow[]>(text: string, values?: unknown[]): Promise<Rows>;
  /** Runs a statement whose rows are `TextRow`. */
  texts(statement: Prepared, values: string[]): Promise<TextRow[]>;
  /** Runs `work` in a transaction; rolls it back if `work` rejects. Default: READ COMMITTED, whatever the database sets. */
  begin<Result>(work: (sql: Sql) => Promise<Result>, isolation?: 'READ COMMITTED' | 'SERIALIZABLE'): Promise<Result>;
}

/** The statement of each place in the source. It has the same name on every connection, so that a pooler can share it. */
const statements = new Map<TemplateStringsArray, { name: string; text: string }>();

function statementOf(texts: TemplateStringsArray, given: readonly unknown[]): { name: string; text: string } {
  const known = statements.get(texts);
  if (known) return known;
  const text = textFor('postgres', texts, given);
  const statement = { name: `s${statements.size}`, text };
  statements.set(texts, statement);
  return statement;
}

/** PostgreSQL's function that waits for the synchronous standby. */
const standbyWait = 'SyncRepWaitForLSN';

type Run = <Rows>(query: pg.QueryConfig & { rowMode?: 'array' }) => Promise<Rows>;

/** Returns a function that runs one statement. It rejects with StandbyError if a commit did not wait for the standby. */
function createRun(client: pg.Client): Run {
  let inDoubt = false;
  // The only sign of such a commit. Any other warning can have the same code, and the text depends on lc_messages: the routine tells them
  // apart (src/backend/replication/syncrep.c). A pooler may omit it.
  client.on('notice', ({ code, routine = standbyWait }) => {
    if (code === '01000' && routine === standbyWait) inDoubt = true;
  });

  // Why the connection ended between two statements: the driver's error for the next statement does not say it.
  let lost: Error | undefined;
  client.on('error', (error) => {
    lost ??= error;
  });

  return async <Rows>(query: pg.QueryConfig & { rowMode?: 'array' }) => {
    inDoubt = false;
    const result = await client.query(query).catch((error: unknown) => Promise.reject(lost ?? error));
    if (inDoubt) throw new StandbyError('the database has committed, but perhaps not on its standby');
    return result.rows as Rows;
  };
}

export function createSql(client: pg.Client, prepare: boolean): Sql {
  const run = createRun(client);

  function tag<Rows>(texts: TemplateStringsArray, ...given: unknown[]): Promise<Rows> {
    const { name, text } = statementOf(texts, given);
    return run({ text, values: valuesOf(given), ...(prepare && { name }) });
  }

  const sql: Sql = Object.assign(tag, {
    texts: ({ name, text }: Prepared, values: string[]) =>
      run<TextRow[]>({ text, values, rowMode: 'array', ...(prepare && name && { name }) }),
    unsafe: <Rows>(text: string, values?: unknown[]) => run<Rows>({ text, ...(values && { values }) }),
    async begin<Result>(work: (sql: Sql) => Promise<Result>, isolation = 'READ COMMITTED') {
      await run({ text: `BEGIN ISOLATION LEVEL ${isolation}` });
      try {
        const result = await work(sql);
        await run({ text: 'COMMIT' });
        return result;
      } catch (error) {
        // The connection may be lost, and the transaction with it.
        await run({ text: 'ROLLBACK' }).catch(() => undefined);
        throw error;
      }
    },
  });
  return sql;
}

/** Runs the statements of a command or a query, one after the other, each with the tag `sql`. */
export async function runSteps<Result>(
  sql: (texts: TemplateStringsArray, ...given: unknown[]) => Promise<unknown[]>,
  steps: Steps<Result>,
): Promise<Result> {
  let step = steps.next();
  while (!step.done) step = steps.next(await sql(step.value.texts, ...step.value.given));
  return step.value;
}

/** An element of an array literal (https://www.postgresql.org/docs/18/arrays.html#ARRAYS-IO). Undefined becomes NULL. */
export function elementOf(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  if (Buffer.isBuffer(value)) return `"\\\\x${value.toString('hex')}"`;
  return typeof value === 'string' ? `"${value.replaceAll(/["\\]/g, '\\$&')}"` : String(value);
}

/** An array literal, as a parameter. */
export const arrayOf = (values: unknown[]) => `{${values.map(elementOf).join()}}`;
