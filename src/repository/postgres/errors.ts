/** What the errors of PostgreSQL and of the way to it mean. */
import postgres from 'postgres';
import { unavailable } from '../store.ts';

/** Nothing was done, and the same may succeed next time (https://www.postgresql.org/docs/18/errcodes-appendix.html). */
const refused = ['40001', '40P01'];

/** The server is about to stop, starts, or takes no writes: another, or a later one, may. The transaction was not committed. */
const elsewhere = ['25006', '57P03'];

// Classes that tell of the server, its disk or another session, not of a bug of ours.
const passing = /^(08|25006|40|53|55P03|57|58|XX00[12])/;

/** Whether the connection is of no use any more. */
export function endsConnection(error: unknown): boolean {
  return !(error instanceof postgres.PostgresError) || /^(08|57P)|^25006/.test(error.code);
}

/** Whether it is certain that a statement that failed so had no effect, and worth sending again. */
export function wasRefused(error: unknown): boolean {
  return error instanceof postgres.PostgresError && [...refused, ...elsewhere].includes(error.code);
}

/** What an error means to a client: `service_unavailable` where it may pass, otherwise the error itself. */
export function translate(error: unknown): unknown {
  if (!(error instanceof postgres.PostgresError)) return unavailable(error);
  // What a row held has no place in a log.
  const { code, message, severity } = error;
  const cause = Object.assign(new Error(message), { code, severity });
  return passing.test(code) ? unavailable(cause) : cause;
}
