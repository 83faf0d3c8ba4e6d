/** Prepares a PostgreSQL database before it is used: connects, checks its settings and migrates its schema. Opens it for a command. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { codeOf, messageOf } from '../../core/errors.ts';
import { OpenError, type OpenOptions, type Store } from '../store.ts';
import { connect, refuseStandby } from './connection.ts';
import { withAdvice } from './errors.ts';
import { prepareSchema } from './migrations.ts';
import { sessionTimeouts } from './pool.ts';
import { createSql, type Sql } from './sql.ts';
import { readTarget, type Target } from './url.ts';

/** How long to wait for a database that starts together with the server. If it stays down, the process exits and its supervisor restarts it. */
const openTimeoutMs = 5000;
const retryDelayMs = 200;
const reportWaitAfterMs = 1000;
/** A migration may take long, or wait for a lock or for a lost standby. */
const reportBusyAfterMs = 5000;

/**
 * Of migrations and commands, whose statements may take hours. A stopped process would otherwise keep its locks, and servers wait behind them.
 */
const commandSettings = { idle_in_transaction_session_timeout: 60_000 };

/**
 * A wrong password, user or database (classes 28 and 3D, and 42501), no password (SASL), or a certificate that is not trusted
 * (https://nodejs.org/docs/latest-v24.x/api/tls.html#x509-certificate-error-codes): a retry would fail in the same way.
 */
const permanent = /^(28|3D|42501|NO_TLS|UNABLE_TO|SASL)|CERT/;

/** Tries until it reaches a primary, at least for `openTimeoutMs`. Says what it waits for. */
async function connectFirst(target: Target, { now, logger }: OpenOptions): Promise<pg.Client> {
  const deadline = performance.now() + openTimeoutMs;
  const until = new Date(now().getTime() + openTimeoutMs).toISOString();
  const timer = setTimeout(
    () => logger?.warn(`DATABASE_URL: no connection to ${target.label} yet: trying again until ${until}.`),
    reportWaitAfterMs,
  );
  try {
    for (;;) {
      try {
        return await connectToPrimary(target);
      } catch (error) {
        if (performance.now() >= deadline || permanent.test(codeOf(error) || messageOf(error))) throw error;
        await sleep(retryDelayMs);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

async function connectToPrimary(target: Target): Promise<pg.Client> {
  const { client } = await connect(target, commandSettings);
  try {
    await refuseStandby(client);
    return client;
  } catch (error) {
    destroy(client);
    throw error;
  }
}

/** Closes a connection at once, also while a statement runs. */
const destroy = (client: pg.Client) => void client.connection.stream.destroy();

/** Closes the connection if the server hangs. */
function inTime<Result>(client: pg.Client, work: Promise<Result>): Promise<Result> {
  const timer = setTimeout(destroy, openTimeoutMs, client);
  return work.finally(() => clearTimeout(timer));
}

const unsafeCommit = (setting: string) =>
  `acknowledges commits before they are safe: synchronous_commit is ${setting}; it must be on or remote_apply.`;

const unsafeOff = (setting: string) => `can lose or damage acknowledged data at a loss of power: ${setting} is off.`;

/** Commits that wait for the disk, and for the standby if one is named: a weaker setting would lose acknowledged writes. */
const safeCommits = ['on', 'remote_apply'];

/**
 * Requires UTF-8, so that names are returned unchanged, and commits that wait for the disk. A session that has taken the options of a command
 * sets that itself; one of a pooler may belong to others next. Throws OpenError. Resolves to the synchronous_commit that sessions need.
 */
async function checkSettings(sql: Sql, label: string, { strict, logger }: OpenOptions): Promise<string> {
  const [settings] = await sql`
    SELECT current_setting('server_encoding') AS encoding, current_setting('synchronous_commit') AS commit,
      current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
      current_setting('idle_in_transaction_session_timeout') = '1min' AS own`;
  if (settings?.encoding !== 'UTF8') throw new OpenError(`has the encoding ${settings?.encoding}; it must be UTF8.`);
  for (const setting of ['fsync', 'full_page_writes']) {
    if (settings[setting] !== 'off' || strict === undefined) continue;
    if (strict) throw new OpenError(unsafeOff(setting));
    logger?.warn(`DATABASE_URL: ${label} ${unsafeOff(setting)}`);
  }
  if (safeCommits.includes(settings.commit)) return settings.commit;
  if (!settings.own) throw new OpenError(unsafeCommit(settings.commit));
  await sql.unsafe('SET synchronous_commit = on');
  return 'on';
}

/** The migration has no time-out, because it may take hours. Resolves to what it applied, and to the synchronous_commit that sessions need. */
async function examine(client: pg.Client, { label, prepare }: Target, options: OpenOptions) {
  const sql = createSql(client, prepare);
  const commit = await inTime(client, checkSettings(sql, label, options));
  const busy = `${label} has been at work on the schema for ${reportBusyAfterMs / 1000} s: pg_stat_activity shows what it waits for.`;
  const note = setTimeout(() => options.logger?.warn(`DATABASE_URL: ${busy}`), reportBusyAfterMs);
  const migrated = await prepareSchema(sql, options).finally(() => clearTimeout(note));
  return { sql, commit, migrated };
}

/**
 * Resolves to the configuration of a server's connections. A pooler may refuse or drop start-up options: then the role must carry the time-outs
 * and the synchronous_commit. Throws OpenError if it does not.
 */
async function findConfig(target: Target, commit: string): Promise<pg.ClientConfig> {
  const wanted = { ...sessionTimeouts, synchronous_commit: commit };
  const { client, config } = await connect(target, wanted);
  const text = 'SELECT name, setting FROM pg_settings WHERE name = ANY ($1) ORDER BY name';
  const asked = client.query<{ name: keyof typeof wanted; setting: string }>(text, [Object.keys(wanted)]);
  const { rows } = await inTime(client, asked).finally(() => destroy(client));
  const missing = rows.filter(({ name, setting }) =>
    name === 'synchronous_commit' ? !safeCommits.includes(setting) : setting === '0',
  );
  if (missing.length === 0) return config;
  const role = pg.escapeIdentifier(client.user ?? '');
  const changes = missing.map(({ name }) => `ALTER ROLE ${role} SET ${name} = ${wanted[name]}`);
  throw new OpenError(`is behind a pooler that drops the settings of sessions: run ${changes.join('; ')}.`);
}

function sentenceOf(label: string, error: unknown): string {
  if (error instanceof OpenError) return `${label} ${error.message}`;
  return `${label} cannot be opened: ${messageOf(withAdvice(error)) || codeOf(error)}.`;
}

async function openOrExplain<Result>({ label }: Target, open: () => Promise<Result>): Promise<Result> {
  try {
    return await open();
  } catch (error) {
    throw new OpenError(sentenceOf(label, error), { cause: error instanceof pg.DatabaseError ? error : undefined });
  }
}

interface PreparedDatabase extends Pick<Store, 'migrated'> {
  /** Of a server's connections. */
  config: pg.ClientConfig;
}

/** Connects, checks the settings and migrates the schema. Rejects with OpenError. */
export function prepareDatabase(target: Target, options: OpenOptions): Promise<PreparedDatabase> {
  return openOrExplain(target, async () => {
    const client = await connectFirst(target, options);
    const { commit, migrated } = await examine(client, target, options).finally(() => destroy(client));
    return { config: await findConfig(target, commit), migrated };
  });
}

export interface Alone {
  sql: Sql;
  destroy: () => void;
  /** The URL without user, password and parameters, for messages. */
  label: string;
}

/**
 * Opens one connection, for a command that works without a pool, after checking the settings; migrates the schema if `options.migrate` allows.
 * Rejects with OpenError.
 */
export function openAlone(databaseUrl: string, options: OpenOptions): Promise<Alone> {
  const target = readTarget(databaseUrl);
  return openOrExplain(target, async () => {
    const client = await connectFirst(target, options);
    try {
      const { sql } = await examine(client, target, options);
      return { sql, destroy: () => destroy(client), label: target.label };
    } catch (error) {
      destroy(client);
      throw error;
    }
  });
}
