/** Connects to one PostgreSQL host, and ends what runs there too long. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { codeOf, messageOf } from '../../core/errors.ts';
import { createSql, type Sql } from './sql.ts';
import type { Host, Target } from './url.ts';

export interface Connection {
  sql: Sql;
  /** The timeline of a primary: each promotion begins the next one. Undefined for a standby. */
  timeline: number | undefined;
  /** Whether the session is known to belong to this connection alone; false behind a pooler. */
  own: boolean;
  /**
   * Ends the running statement and then the connection. Resolves when the server has closed it, or if the server does not answer a cancel
   * request.
   */
  abandon: () => Promise<void>;
  /** Closes the connection immediately. The server may not notice while a statement runs. */
  destroy: () => void;
}

/** From the first packet to the end of the set-up. With several hosts, an unresponsive one must leave time for the next. */
const connectTimeoutMs = { one: 2000, several: 1000 };

const cancelTimeoutMs = 1000;
/** A cancel request has no effect if the server has not read the statement yet. */
const cancelEveryMs = 250;

/** The server ends the waiting statement of a killed process. PostgreSQL 14 or later, not on every platform. */
const noticeLoss = '-c client_connection_check_interval=1000';

/** Marks a session that belongs to this connection alone. A pooler drops the mark: there, the next transaction may use another session. */
const own = '-c animal_store.session=own';

/** Errors of a pooler for an unknown start-up option, and of a server for a setting that it does not know or its platform lacks. */
const refusedOption = ['08P01', '42704', '22023'];

/**
 * The timeline of a primary in hexadecimal, NULL on a standby. The name of its current WAL file has it; pg_control_checkpoint() lags behind a
 * promotion (https://www.postgresql.org/docs/18/functions-admin.html#FUNCTIONS-ADMIN-BACKUP-TABLE).
 */
const timelineNow = 'CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END';

interface TimelineRow {
  timeline: string | null;
}

interface SessionRow extends TimelineRow {
  own: boolean;
}

const readTimeline = (row: TimelineRow | undefined) => (row?.timeline ? Number.parseInt(row.timeline, 16) : undefined);

/** The timeline of the primary that `sql` is connected to; undefined if it is a standby. */
export async function askTimeline(sql: Sql): Promise<number | undefined> {
  const [row] = await sql.unsafe<TimelineRow[]>(`SELECT ${timelineNow} AS timeline`);
  return readTimeline(row);
}

/** Makes commits wait for the disk, and for the standby if one is named: a weaker setting would lose acknowledged writes. */
const setUp = `
  SELECT ${timelineNow} AS timeline, coalesce(current_setting('animal_store.session', true) = 'own', false) AS own,
  CASE WHEN current_setting('animal_store.session', true) = 'own' THEN set_config(
    'synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false
  ) END`;

/** What `pg` has, but its types lack. */
type Wire = pg.Connection & {
  connect: (port: number | string, host?: string) => void;
  requestSsl: () => void;
  cancel: (processId: number, secretKey: number) => void;
};

const ignore = () => undefined;

export async function within<Result>(ms: number, work: Promise<Result>, late: string): Promise<Result> {
  const timer = new AbortController();
  const timeout = sleep(ms, undefined, timer).then(() => Promise.reject(new Error(late)));
  timeout.catch(ignore);
  return Promise.race([work, timeout]).finally(() => timer.abort());
}

/** https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS. Rejects if the server does not answer. */
async function cancel(client: pg.Client, { host, port }: Host, ssl: pg.ClientConfig['ssl']): Promise<void> {
  const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
  const wire = new pg.Connection({ ssl }) as Wire;
  let sent = false;
  const send = () => {
    wire.cancel(processID, secretKey);
    sent = true;
  };
  const answered = new Promise<void>((resolve, reject) => {
    wire.on('error', ignore).once('end', () => (sent ? resolve() : reject(new Error('no cancel request was taken'))));
  });
  wire.once('connect', ssl ? () => wire.requestSsl() : send).once('sslconnect', send);
  if (host.startsWith('/')) wire.connect(`${host}/.s.PGSQL.${port}`);
  else wire.connect(port, host);
  await within(cancelTimeoutMs, answered, 'no answer to a cancel request').finally(() => wire.stream.destroy());
}

/** Ends the running statement and then the connection. Rejects if the server does not answer a cancel request. */
async function endStatement(client: pg.Client, host: Host, ssl: pg.ClientConfig['ssl']): Promise<void> {
  let ended = false;
  const end = new Promise<void>((resolve) => {
    client.once('end', () => {
      ended = true;
      resolve();
    });
  });
  client.once('drain', () => void client.end());
  // An idle client is drained only after another statement.
  client.query('SELECT 1').catch(ignore);
  while (!ended) {
    await cancel(client, host, ssl);
    await Promise.race([end, sleep(cancelEveryMs)]);
  }
}

async function setUpSession(
  client: pg.Client,
  { prepare }: Target,
  onClose: () => void,
): Promise<Pick<Connection, 'sql' | 'timeline' | 'own'>> {
  await client.connect();
  // At the server's FIN, not at the close of the socket some turns later: a statement sent in between would have an unknown outcome.
  client.connection.stream.once('end', onClose);
  const sql = createSql(client, prepare);
  const [row] = await sql.unsafe<SessionRow[]>(setUp);
  return { sql, timeline: readTimeline(row), own: row?.own === true };
}

async function connectTo(
  host: Host,
  target: Target,
  ssl: pg.ClientConfig['ssl'],
  options: string,
  onClose: () => void,
): Promise<Connection> {
  const { database, user, password, hosts } = target;
  const client = new pg.Client({
    ...{ ...host, database, user, password, ssl, options },
    ...{ application_name: 'animal-store', keepAlive: true, keepAliveInitialDelayMillis: 60_000 },
  });
  client.on('error', onClose).on('end', onClose);
  const destroy = () => void client.connection.stream.destroy();
  try {
    const withinMs = connectTimeoutMs[hosts.length > 1 ? 'several' : 'one'];
    const late = `${host.host}:${host.port} does not answer`;
    const session = await within(withinMs, setUpSession(client, target, onClose), late);
    return { ...session, abandon: () => endStatement(client, host, ssl).catch(ignore).finally(destroy), destroy };
  } catch (error) {
    destroy();
    throw error;
  }
}

/** The driver's errors, which have no code. */
const noTls = /SSL connection/;
const noTlsOffered = /does not support SSL/;

/** Without TLS if the server has none and `sslmode` allows that. */
async function connectEitherWay(...[host, target, ssl, ...rest]: Parameters<typeof connectTo>): Promise<Connection> {
  try {
    return await connectTo(host, target, ssl, ...rest);
  } catch (error) {
    const message = messageOf(error);
    if (!ssl || !noTls.test(message)) throw error;
    if (!target.plainAllowed || !noTlsOffered.test(message))
      throw Object.assign(new Error(message), { code: 'NO_TLS' });
    return connectTo(host, target, false, ...rest);
  }
}

/** Settings of a session in milliseconds, such as `statement_timeout`. */
export type Settings = Record<string, number>;

/** Connects to a host, whether it is a primary or a standby. `onClose` is called at least once when the connection ends, for any reason. */
export type Dial = (host: Host, settings: Settings, onClose: () => void) => Promise<Connection>;

/** A pooler may refuse the settings; the connection then has none. */
export function createDialer(target: Target): Dial {
  let refusals = 0;
  return async (host, settings, onClose) => {
    const given = [own, ...Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`)];
    const choices = [[...given, noticeLoss], given, []];
    for (;;) {
      const tried = refusals;
      try {
        return await connectEitherWay(host, target, target.ssl, choices[tried]?.join(' ') ?? '', onClose);
      } catch (error) {
        if (tried === choices.length - 1 || !refusedOption.includes(codeOf(error))) throw error;
        refusals = Math.max(refusals, tried + 1);
      }
    }
  };
}
