/** Classifies PostgreSQL and connection errors: retry, reconnect, or report to the client. */
import pg from 'pg';
import { codeOf, messageOf } from '../../core/errors.ts';
import { unavailable } from '../store.ts';

/**
 * Nothing was committed (https://www.postgresql.org/docs/18/errcodes-appendix.html). 40001 and 40P01: serialization failure and deadlock; a retry
 * may succeed. 25006 and 57P03: the server is read-only, starting or stopping; a retry may reach the new primary, or this one when it is ready.
 */
const refused = /^(40001|40P01|25006|57P03)$/;

/** PostgreSQL's functions that report a missing prepared statement, or one whose table has changed. A new connection prepares it again. */
const outdated = ['FetchPreparedStatement', 'RevalidateCachedQuery'];

const isOutdated = ({ routine }: pg.DatabaseError) => outdated.includes(String(routine));

/**
 * Caused by the server, its disk or another session, not by a bug in this code. 25P03 and 25P04: the server has ended a transaction whose
 * client did nothing for too long. 54000: transaction ids have run out until the next VACUUM.
 */
const environmental = /^(08|25006|25P0[34]|40|53|54000|55P03|57|58|XX00[12])/;

/** The database has committed, but perhaps not on its standby. */
export class StandbyError extends Error {
  override name = 'StandbyError';
}

/** No answer, or no free connection, within the time limit. */
export class TimeoutError extends Error {
  override name = 'TimeoutError';
}

/** The first four as on SQLite. `connection`: lost or not opened. `standby`: a commit that may not be on the standby. */
const failures = ['disk_full', 'locked', 'io', 'other', 'read_only', 'connection', 'timeout', 'standby'] as const;
type Failure = (typeof failures)[number];

export const createCounters = () => Object.fromEntries(failures.map((name) => [name, 0])) as Record<Failure, number>;

/** 57014: statement_timeout. 25P03 and 25P04: time-outs of transactions. The other errors of class 57 end the session. */
const reasons: readonly [sqlStates: RegExp, Failure][] = [
  [/^53100/, 'disk_full'],
  [/^(40|55P03)/, 'locked'],
  [/^(58|XX00[12])/, 'io'],
  [/^25006/, 'read_only'],
  [/^(57014|25P0[34])/, 'timeout'],
  [/^(08|28|3D|53300|57P)/, 'connection'],
];

export function reasonOf(error: unknown): Failure {
  if (error instanceof StandbyError) return 'standby';
  if (error instanceof TimeoutError) return 'timeout';
  if (!(error instanceof pg.DatabaseError)) return 'connection';
  return reasons.find(([sqlStates]) => sqlStates.test(codeOf(error)))?.[1] ?? 'other';
}

/** Whether the connection is unusable after this error. */
export function endsConnection(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) || /^(08|57P|25006|25P0[34])/.test(codeOf(error)) || isOutdated(error);
}

/** What became of a statement: refused, it had no effect and should be sent again; lost, its outcome is unknown; failed, it would fail again. */
export function outcomeOf(error: unknown): 'refused' | 'lost' | 'failed' {
  if (error instanceof pg.DatabaseError && (refused.test(codeOf(error)) || isOutdated(error))) return 'refused';
  return endsConnection(error) ? 'lost' : 'failed';
}

/** The driver's error may contain row data, which must not be logged. */
function withoutRow(error: unknown): unknown {
  if (!(error instanceof pg.DatabaseError)) return error;
  const { code, message, severity } = error;
  return Object.assign(new Error(message), { code, severity });
}

/** The role lacks a right. The server's message names the table, and no row. */
export const insufficientPrivilege = '42501';

/** What to do if a role cannot write, and there is no failover. */
export const howToWrite = 'on a primary, set default_transaction_read_only to off for the role and the database';

const noPrepared =
  'add prepare=false to DATABASE_URL, because its pooler loses prepared statements, or use PgBouncer 1.21 or later with max_prepared_statements';

/** How the role of a server gets its rights. */
export const howToGrant = 'run deploy/postgres/grants.sql as the role that owns the tables (docs/operations.md)';

/** What the operator must do about an error, by SQLSTATE: a right that the role lacks, and so on. */
const advice: Record<string, string> = {
  [insufficientPrivilege]: howToGrant,
  25006: howToWrite,
  26000: noPrepared,
  '42P05': noPrepared,
};

/** PostgreSQL's function that refuses a statement from which a policy would hide rows. The code is that of a right that the role lacks. */
const rowSecurityCheck = 'check_enable_rls';
const rowSecurity = 'run ALTER TABLE … DISABLE ROW LEVEL SECURITY for each table of the store';

/** The error, with what to do about it if the operator must do something. */
export function withAdvice(error: unknown): unknown {
  const code = codeOf(error);
  const hidesRows = error instanceof pg.DatabaseError && error.routine === rowSecurityCheck;
  const told = hidesRows ? rowSecurity : advice[code];
  return told ? Object.assign(new Error(`${messageOf(error)}: ${told}`), { code }) : error;
}

/**
 * Turns an error into ApiError `service_unavailable` if the environment caused it, the operator must do something about it, or it `isTemporary`;
 * otherwise returns it without the row's data.
 */
export function translate(error: unknown, isTemporary = false): unknown {
  const told = withoutRow(withAdvice(error));
  const isBug = error instanceof pg.DatabaseError && !environmental.test(codeOf(error)) && !advice[codeOf(error)];
  return isBug && !isTemporary ? told : unavailable(told);
}
