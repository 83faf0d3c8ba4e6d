/** Runs SQL on one connection: a tag whose values become parameters, never text. */
import { createHash } from 'node:crypto';
import type pg from 'pg';
import { type Steps, textFor, valuesOf } from '../steps.ts';
import { StandbyError, TimeoutError } from './errors.ts';

// biome-ignore lint/suspicious/noExplicitAny: the columns depend on the statement.
type AnyRow = Record<string, any>;

export interface Connection {
  /** A prepared statement, if the connection allows those. */
  <Rows extends object[] = AnyRow[]>(texts: TemplateStringsArray, ...values: unknown[]): Promise<Rows>;
  /** Without values, `text` may hold several statements. */
  unsafe<Rows extends object[] = AnyRow[]>(text: string, values?: unknown[]): Promise<Rows>;
  /** Runs `work` in a transaction, READ COMMITTED whatever the database sets; rolls it back if `work` rejects. */
  begin<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Lets no further statement run, so that work that was given up is not committed later. The connection must end. */
  stop(): void;
}

/** Named by its text: behind a pooler, whose sessions serve many clients, a name never means another statement. */
const nameOf = (text: string) => createHash('sha256').update(text).digest('base64url').slice(0, 22);

/** PostgreSQL's function that waits for the synchronous standby (src/backend/replication/syncrep.c). */
const standbyWait = 'SyncRepWaitForLSN';

/**
 * Whether a warning says that a commit may not be on the standby: the only sign of it. Any other warning can have the same code, and the text depends on
 * lc_messages: the routine tells them apart. A pooler may omit it, so a warning without one counts.
 */
export const isStandbyWarning = ({
  code,
  routine = standbyWait,
}: {
  code?: string | undefined;
  routine?: string | undefined;
}): boolean => code === '01000' && routine === standbyWait;

/** Statements on one connection. Each rejects with StandbyError if its commit did not wait for the standby. */
export function createConnection(client: pg.ClientBase, prepare: boolean): Connection {
  let inDoubt = false;
  client.on('notice', (notice) => {
    inDoubt ||= isStandbyWarning(notice);
  });

  // Why the connection ended between two statements: the driver's error for the next statement does not say it.
  let lost: Error | undefined;
  client.on('error', (error) => {
    lost ??= error;
  });

  let isStopped = false;
  const run = async <Rows>(query: pg.QueryConfig) => {
    if (isStopped) throw new TimeoutError('the deadline has passed');
    inDoubt = false;
    // With a callback: for a promise, the driver assigns a function literal to a property. V8 allocates such a function among the old objects,
    // and it would keep the query, its values and its rows until a full garbage collection.
    const result = await new Promise<pg.QueryResult>((resolve, reject) =>
      client.query(query, (error, found) => (error ? reject(lost ?? error) : resolve(found))),
    );
    if (inDoubt) throw new StandbyError('the database has committed, but perhaps not on its standby');
    return result.rows as Rows;
  };

  /** The name of each text that is prepared on this connection. */
  const names = new Map<string, string>();
  const tag = <Rows>(texts: TemplateStringsArray, ...given: unknown[]) => {
    const text = textFor('postgres', texts, given);
    const values = valuesOf(given);
    if (!prepare) return run<Rows>({ text, values });
    const name = names.get(text) ?? nameOf(text);
    names.set(text, name);
    return run<Rows>({ name, text, values });
  };

  return Object.assign(tag, {
    stop() {
      isStopped = true;
    },
    unsafe: <Rows>(text: string, values?: unknown[]) => run<Rows>({ text, ...(values && { values }) }),
    async begin<Result>(work: () => Promise<Result>) {
      await run({ text: 'BEGIN ISOLATION LEVEL READ COMMITTED' });
      try {
        const result = await work();
        await run({ text: 'COMMIT' });
        return result;
      } catch (error) {
        // The connection may be lost, and the transaction with it.
        await run({ text: 'ROLLBACK' }).catch(() => undefined);
        throw error;
      }
    },
  });
}

/** Runs the statements of a command or a query, one after the other. */
export async function runSteps<Result>(connection: Connection, steps: Steps<Result>): Promise<Result> {
  let step = steps.next();
  while (!step.done) step = steps.next(await connection(step.value.texts, ...step.value.given));
  return step.value;
}
