/** Runs SQL on one connection: a tag whose values become parameters, never text. */
import { createHash } from 'node:crypto';
import pg from 'pg';
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

/** The statement of each place in the source, which is prepared once on each connection. */
const statements = new Map<TemplateStringsArray, { name: string; text: string }>();

function statementOf(texts: TemplateStringsArray, given: readonly unknown[]) {
  const known = statements.get(texts);
  if (known) return known;
  const text = textFor('postgres', texts, given);
  // Named by its text: behind a pooler, whose sessions serve many clients, a name never means another statement.
  const statement = { name: createHash('sha256').update(text).digest('base64url').slice(0, 22), text };
  statements.set(texts, statement);
  return statement;
}

/** PostgreSQL's function that waits for the synchronous standby. */
const standbyWait = 'SyncRepWaitForLSN';

/** Integers as numbers; as bigint if a number cannot hold them. */
function readInt8(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

pg.types.setTypeParser(pg.types.builtins.INT8, readInt8);

/** Statements on one connection. Each rejects with StandbyError if its commit did not wait for the standby. */
export function createConnection(client: pg.ClientBase, prepare: boolean): Connection {
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

  const tag = <Rows>(texts: TemplateStringsArray, ...given: unknown[]) => {
    const { name, text } = statementOf(texts, given);
    return run<Rows>({ text, values: valuesOf(given), ...(prepare && { name }) });
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
