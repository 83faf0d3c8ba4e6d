/** Prepares a PostgreSQL database before it is used: connects, checks its settings and migrates its schema. Opens it for a command. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { codeOf, messageOf } from '../../core/errors.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { type Connection, within } from './connection.ts';
import { howToGrant, insufficientPrivilege, translated } from './errors.ts';
import { createHosts } from './hosts.ts';
import { waitForOthers } from './lease.ts';
import { prepareSchema } from './migrations.ts';
import type { Sql } from './sql.ts';
import { readTarget, type Target } from './url.ts';

/** How long to wait for a database that starts together with the server. If it stays down, the process exits and its supervisor restarts it. */
const openTimeoutMs = 5000;
const retryDelayMs = 200;
const reportWaitAfterMs = 1000;
/** A migration may take long, or wait for a lock or for a lost standby. */
const reportBusyAfterMs = 5000;

/**
 * A wrong password, user or database (classes 28 and 3D, and 42501), no password (SASL), or a certificate that is not trusted
 * (https://nodejs.org/docs/latest-v24.x/api/tls.html#x509-certificate-error-codes): a retry would fail in the same way.
 */
const permanent = /^(28|3D|42501|NO_TLS|UNABLE_TO|SASL)|CERT/;

/** Tries until it connects, at least for `openTimeoutMs`. Tells `onWait` what it waits for. */
async function connectFirst(
  label: string,
  connect: () => Promise<Connection>,
  { now, onWait }: OpenOptions,
): Promise<Connection> {
  const deadline = performance.now() + openTimeoutMs;
  const until = new Date(now().getTime() + openTimeoutMs).toISOString();
  const timer = setTimeout(
    () => onWait?.(`no connection to ${label} yet: trying again until ${until}.`),
    reportWaitAfterMs,
  );
  try {
    for (;;) {
      try {
        return await connect();
      } catch (error) {
        if (performance.now() >= deadline || permanent.test(codeOf(error) || messageOf(error))) throw error;
        await sleep(retryDelayMs);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

const unsafeCommit = (setting: string) =>
  `acknowledges commits before they are safe: synchronous_commit is ${setting}; it must be on or remote_apply.`;

const unsafeOff = (setting: string) => `can lose or damage acknowledged data at a loss of power: ${setting} is off.`;

/**
 * Requires UTF-8, so that names are returned unchanged, and commits that wait for the disk. A direct connection has set synchronous_commit
 * itself; one through a pooler cannot. Throws OpenError.
 */
async function checkSettings(sql: Sql, label: string, { strict, onWarning }: OpenOptions): Promise<void> {
  const [settings] = await sql`
    SELECT current_setting('server_encoding') AS encoding, current_setting('synchronous_commit') AS commit,
      current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes`;
  if (settings?.encoding !== 'UTF8') throw new OpenError(`has the encoding ${settings?.encoding}; it must be UTF8.`);
  if (!['on', 'remote_apply'].includes(settings.commit)) throw new OpenError(unsafeCommit(settings.commit));
  for (const setting of ['fsync', 'full_page_writes']) {
    if (settings[setting] !== 'off') continue;
    if (strict) throw new OpenError(unsafeOff(setting));
    onWarning?.(`${label} ${unsafeOff(setting)}`);
  }
}

/** Errors for a prepared statement that the session does not have, and for one that it has from another client. */
const otherSession = ['26000', '42P05'];

const noPrepared =
  'is behind a pooler that loses prepared statements: add prepare=false to DATABASE_URL, or use PgBouncer 1.21 or later with max_prepared_statements.';

const probeTimes = 3;
/** A pooler with a single session answers only when the transaction has ended. */
const probeWithinMs = 500;

/**
 * Rejects with one of `otherSession` if a pooler gives a transaction another session and does not take the client's prepared statements there. `sql`
 * gets the session that `other` has just used; while it keeps that, `other` gets another one. Other clients of the pooler may take either, so `other`
 * tries more than once.
 */
async function probePooler(sql: Sql, other: Sql): Promise<void> {
  const ask = (each: Sql) => each`SELECT 1`;
  await ask(other);
  await sql.begin(async (transaction) => {
    await ask(transaction);
    for (let time = 0; time < probeTimes; time++) {
      await within(probeWithinMs, ask(other), 'late').catch((error) => {
        if (otherSession.includes(codeOf(error))) throw error;
      });
    }
  });
}

/** A session of its own keeps its prepared statements. */
async function checkPooler({ sql, own }: Connection, { prepare }: Target, connect: () => Promise<Connection>) {
  if (own || !prepare) return;
  // A pooler may have no second session to give.
  const other = await connect().catch(() => undefined);
  try {
    if (other) await probePooler(sql, other.sql);
  } finally {
    other?.destroy();
  }
}

/** Times out if the server hangs. The migration itself has no timeout, because it may take hours. */
async function examine(
  connection: Connection,
  target: Target,
  connect: () => Promise<Connection>,
  options: OpenOptions,
): Promise<void> {
  const { sql, destroy } = connection;
  const { label } = target;
  const timer = setTimeout(destroy, openTimeoutMs);
  try {
    await checkPooler(connection, target, connect);
    await checkSettings(sql, label, options);
  } finally {
    clearTimeout(timer);
  }
  const busy = `${label} has been at work on the schema for ${reportBusyAfterMs / 1000} s: pg_stat_activity shows what it waits for.`;
  const note = setTimeout(() => options.onWait?.(busy), reportBusyAfterMs);
  try {
    await prepareSchema(sql, options);
  } finally {
    clearTimeout(note);
  }
}

function sentenceOf(label: string, error: unknown): string {
  if (error instanceof OpenError) return `${label} ${error.message}`;
  const code = codeOf(error);
  if (otherSession.includes(code)) return `${label} ${noPrepared}`;
  const advice = code === insufficientPrivilege ? `: ${howToGrant}` : '';
  return `${label} cannot be opened: ${messageOf(error) || code}${advice}.`;
}

/** Connects, checks the settings and migrates the schema. Rejects with OpenError. */
export async function prepareDatabase(
  target: Target,
  connect: () => Promise<Connection>,
  options: OpenOptions,
): Promise<void> {
  let connection: Connection | undefined;
  try {
    connection = await connectFirst(target.label, connect, options);
    await examine(connection, target, connect, options);
  } catch (error) {
    throw new OpenError(sentenceOf(target.label, error), {
      cause: error instanceof pg.DatabaseError ? error : undefined,
    });
  } finally {
    connection?.destroy();
  }
}

export interface Alone extends Pick<Connection, 'sql' | 'destroy'> {
  /** The URL without user, password and parameters, for messages. */
  label: string;
}

/**
 * Opens one connection, for a command that works without a pool, after checking the settings; migrates the schema if `options.migrate` allows.
 * Rejects with OpenError.
 */
export async function openAlone(databaseUrl: string, options: OpenOptions): Promise<Alone> {
  const target = readTarget(databaseUrl);
  const { connect } = createHosts(target);
  await prepareDatabase(target, () => connect(() => undefined), options);
  const { sql, destroy, timeline } = await translated(() => connect(() => undefined));
  if (target.reads === 'lease') await translated(() => waitForOthers(sql, timeline));
  return { sql, destroy, label: target.label };
}
