/** Opens a PostgreSQL database: connects, checks its settings and migrates its schema. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { codeOf, messageOf } from '../../core/errors.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { type Connected, connect, refuseStandby, type Settings } from './connection.ts';
import { withAdvice } from './errors.ts';
import { prepareSchema } from './migrations.ts';
import { sessionTimeouts } from './pool.ts';
import { createSql, type Sql } from './sql.ts';
import type { Target } from './url.ts';

/** How long to wait for a database that starts together with the server. If it stays down, the process exits and its supervisor restarts it. */
const openTimeoutMs = 5000;
const retryDelayMs = 200;
const reportWaitAfterMs = 1000;
/** A migration may take long, or wait for a lock or for a lost standby. */
const reportBusyAfterMs = 5000;

/**
 * A wrong password, user or database (classes 28 and 3D, and 42501), no password (SASL), no TLS, or a certificate that is not trusted
 * (https://nodejs.org/docs/latest-v24.x/api/tls.html#x509-certificate-error-codes): a retry would fail in the same way.
 */
const permanent = /^(28|3D|42501|UNABLE_TO|SASL)|CERT|SSL/;

/** Tries until it reaches a primary, at least for `openTimeoutMs`. Says what it waits for. */
async function connectFirst(target: Target, settings: Settings, { now, logger }: OpenOptions): Promise<Connected> {
  const deadline = performance.now() + openTimeoutMs;
  const until = new Date(now().getTime() + openTimeoutMs).toISOString();
  const timer = setTimeout(
    () => logger?.warn(`DATABASE_URL: no connection to ${target.label} yet: trying again until ${until}.`),
    reportWaitAfterMs,
  );
  try {
    for (;;) {
      try {
        return await connectToPrimary(target, settings);
      } catch (error) {
        if (performance.now() >= deadline || permanent.test(codeOf(error) || messageOf(error))) throw error;
        await sleep(retryDelayMs);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

async function connectToPrimary(target: Target, settings: Settings): Promise<Connected> {
  const connected = await connect(target, settings);
  try {
    await refuseStandby(connected.client);
    return connected;
  } catch (error) {
    destroy(connected.client);
    throw error;
  }
}

/** Closes a connection at once, also while a statement runs. */
const destroy = (client: pg.Client) => void client.connection.stream.destroy();

const unsafeOff = (setting: string) => `can lose or damage acknowledged data at a loss of power: ${setting} is off.`;

/** Commits that wait for the disk, and for the standby if one is named: a weaker setting would lose acknowledged writes. */
const safeCommits = ['on', 'remote_apply'];

/**
 * Requires UTF-8, so that names are returned unchanged, commits that wait for the disk, and time-outs. Throws OpenError. Returns false if the
 * session must set synchronous_commit itself. A pooler may drop what a session sets: then the role must carry it.
 */
function checkSettings(
  found: Record<string, string>,
  settings: Settings,
  user: string | undefined,
  { label, strict, logger }: Pick<Target, 'label'> & OpenOptions,
): boolean {
  const { server_encoding: encoding, synchronous_commit: commit = '' } = found;
  if (encoding !== 'UTF8') throw new OpenError(`has the encoding ${encoding}; it must be UTF8.`);
  for (const setting of ['fsync', 'full_page_writes']) {
    if (found[setting] !== 'off' || strict === undefined) continue;
    if (strict) throw new OpenError(unsafeOff(setting));
    logger?.warn(`DATABASE_URL: ${label} ${unsafeOff(setting)}`);
  }
  if (!safeCommits.includes(commit)) {
    if (!('synchronous_commit' in settings)) return false;
    throw new OpenError(
      `acknowledges commits before they are safe: synchronous_commit is ${commit}; it must be on or remote_apply.`,
    );
  }
  const missing = Object.entries(sessionTimeouts).filter(([name]) => found[name] === '0');
  if (missing.length === 0) return true;
  const role = pg.escapeIdentifier(user ?? '');
  const changes = missing.map(([name, ms]) => `ALTER ROLE ${role} SET ${name} = ${ms}`);
  throw new OpenError(
    `is behind a pooler that drops the settings of sessions: run ${changes.join('; ')}, and restart the pooler.`,
  );
}

const checked = ['server_encoding', 'synchronous_commit', 'fsync', 'full_page_writes', ...Object.keys(sessionTimeouts)];

/** A session of a server or a command, with the configuration that opened it. Rejects with OpenError if its settings are not safe. */
async function connectSafely(
  target: Target,
  options: OpenOptions,
  settings: Settings = sessionTimeouts,
): Promise<Connected> {
  const connected = await connectFirst(target, settings, options);
  const { client } = connected;
  // Closes the connection if the server hangs.
  const timer = setTimeout(destroy, openTimeoutMs, client);
  try {
    const text = 'SELECT name, setting FROM pg_settings WHERE name = ANY ($1)';
    const { rows } = await client.query<{ name: string; setting: string }>(text, [checked]);
    const found = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
    if (checkSettings(found, settings, client.user, { label: target.label, ...options })) return connected;
  } catch (error) {
    destroy(client);
    throw error;
  } finally {
    clearTimeout(timer);
  }
  destroy(client);
  return connectSafely(target, options, { ...settings, synchronous_commit: 'on' });
}

function sentenceOf(label: string, error: unknown): string {
  if (error instanceof OpenError) return `${label} ${error.message}`;
  return `${label} cannot be opened: ${messageOf(withAdvice(error)) || codeOf(error)}.`;
}

interface Opened {
  sql: Sql;
  /** Of a server's connections. */
  config: pg.ClientConfig;
  /** The names of the migrations that were applied. */
  migrated: string[];
  destroy: () => void;
}

/**
 * Opens one connection, after checking the settings; migrates the schema if `options.migrate` allows, which has no time-out, because it may take
 * hours. Rejects with OpenError.
 */
export async function openAlone(target: Target, options: OpenOptions): Promise<Opened> {
  const { label } = target;
  let client: pg.Client | undefined;
  try {
    const connected = await connectSafely(target, options);
    client = connected.client;
    const sql = createSql(client, target.prepare);
    const busy = `${label} has been at work on the schema for ${reportBusyAfterMs / 1000} s: pg_stat_activity shows what it waits for.`;
    const note = setTimeout(() => options.logger?.warn(`DATABASE_URL: ${busy}`), reportBusyAfterMs);
    const migrated = await prepareSchema(sql, options).finally(() => clearTimeout(note));
    return { sql, config: connected.config, migrated, destroy: () => destroy(connected.client) };
  } catch (error) {
    if (client) destroy(client);
    throw new OpenError(sentenceOf(label, error), { cause: error instanceof pg.DatabaseError ? error : undefined });
  }
}
