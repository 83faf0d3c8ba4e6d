/** Opens a PostgreSQL database: connects, checks its settings and migrates its schema. */
import pg from 'pg';
import { ApiError, codeOf, messageOf } from '../../core/errors.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { configOf, openTimeoutMs, sessionSettings } from './connection.ts';
import { withAdvice } from './errors.ts';
import { prepareSchema } from './migrations.ts';
import { createPools, type Pools } from './pool.ts';
import type { Target } from './url.ts';

/** A migration may take long, or wait for a lock or for a lost standby. */
const reportBusyAfterMs = 5000;

/** Commits that wait for the disk, and for the standby if one is named: a weaker setting would lose acknowledged writes. */
const safeCommits = ['on', 'remote_apply'];

const checked = ['server_encoding', 'synchronous_commit', 'fsync', 'full_page_writes', ...Object.keys(sessionSettings)];

/**
 * Requires UTF-8, so that names are returned unchanged, commits that wait for the disk, time-outs, and warnings: a pooler may drop the settings of a
 * session, and then the role must carry them. Throws OpenError.
 */
function checkSettings(found: Record<string, string>, role: string, strict = false): void {
  const { server_encoding: encoding, synchronous_commit: commit = '' } = found;
  if (encoding !== 'UTF8') throw new OpenError(`has the encoding ${encoding}; it must be UTF8.`);
  const off = ['fsync', 'full_page_writes'].find((setting) => found[setting] === 'off');
  if (strict && off) throw new OpenError(`can lose or damage acknowledged data at a loss of power: ${off} is off.`);
  const alter = `ALTER ROLE ${pg.escapeIdentifier(role)} SET`;
  if (!safeCommits.includes(commit))
    throw new OpenError(
      `acknowledges commits before they are safe: synchronous_commit is ${commit}; run ${alter} synchronous_commit = on, and restart the pooler.`,
    );
  const missing = Object.entries(sessionSettings).filter(
    ([name, value]) => found[name] !== value && ['0', 'error', 'off'].includes(found[name] ?? ''),
  );
  if (missing.length === 0) return;
  const changes = missing.map(([name, value]) => `${alter} ${name} = ${value}`);
  throw new OpenError(
    `is behind a pooler that drops the settings of sessions: run ${changes.join('; ')}, and restart the pooler.`,
  );
}

/** Pools whose sessions have safe settings. Rejects with OpenError. */
async function connectSafely(target: Target, options: OpenOptions): Promise<Pools> {
  const pools = createPools(await configOf(target), target, options.metrics);
  try {
    const rows = await pools.keyed.read(
      (sql) => sql`SELECT name, setting, session_user AS role FROM pg_settings WHERE name = ANY (${checked})`,
      openTimeoutMs,
    );
    const found = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
    checkSettings(found, rows[0]?.role, options.strict);
    return pools;
  } catch (error) {
    await pools.close();
    throw error;
  }
}

/** Opens pools, after checking the settings; migrates the schema if `options.migrate` allows (`migrated`: the names). Rejects with OpenError. */
export async function openPools(target: Target, options: OpenOptions) {
  let pools: Pools | undefined;
  try {
    pools = await connectSafely(target, options);
    const busy = `${target.label} has been at work on the schema for ${reportBusyAfterMs / 1000} s: pg_stat_activity shows what it waits for.`;
    const note = setTimeout(() => options.logger?.warn(`DATABASE_URL: ${busy}`), reportBusyAfterMs);
    const migrated = await prepareSchema(pools.keyed, options).finally(() => clearTimeout(note));
    return { pools, migrated };
  } catch (error) {
    await pools?.close();
    const cause = error instanceof ApiError ? error.cause : withAdvice(error);
    const sentence =
      cause instanceof OpenError ? cause.message : `cannot be opened: ${messageOf(cause) || codeOf(cause)}.`;
    throw new OpenError(`${target.label} ${sentence}`);
  }
}
