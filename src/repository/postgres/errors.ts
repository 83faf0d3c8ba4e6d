/** Classifies PostgreSQL and connection errors: retry, reconnect, or report to the client. */
import pg from 'pg';
import { unavailable } from '../store.ts';

/**
 * Serialization failure and deadlock: the transaction was rolled back, and a retry may succeed
 * (https://www.postgresql.org/docs/18/errcodes-appendix.html).
 */
const rolledBack = ['40001', '40P01'];

/** The server is read-only, starting or stopping. Nothing was committed; another host may accept the statement, or this one later. */
const notAccepting = ['25006', '57P03'];

/** Where the server finds that a prepared statement does not exist, or that a migration has changed its table. Another connection prepares it anew. */
const outdated = ['FetchPreparedStatement', 'RevalidateCachedQuery'];

const isOutdated = ({ routine }: pg.DatabaseError) => outdated.includes(String(routine));

// Classes caused by the server, its disk or another session, not by a bug in this code.
const environmental = /^(08|25006|40|53|55P03|57|58|XX00[12])/;

/** Whether the connection is unusable after this error. */
export function endsConnection(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) || /^(08|57P)|^25006/.test(String(error.code)) || isOutdated(error);
}

/** Whether the failed statement certainly had no effect and should be sent again. */
export function wasRefused(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return false;
  return [...rolledBack, ...notAccepting].includes(String(error.code)) || isOutdated(error);
}

/** Turns an error into ApiError `service_unavailable` if the environment caused it; otherwise returns it without the row's data. */
export function translate(error: unknown): unknown {
  if (!(error instanceof pg.DatabaseError)) return unavailable(error);
  // The driver's error may contain row data, which must not be logged.
  const { code, message, severity } = error;
  const cause = Object.assign(new Error(message), { code, severity });
  return environmental.test(String(code)) ? unavailable(cause) : cause;
}
