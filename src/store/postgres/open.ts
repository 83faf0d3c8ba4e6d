/** Opens a PostgreSQL database: connects, checks its settings and migrates its schema. */
import pg from 'pg';
import { ApiError, codeOf, messageOf } from '../../core/errors.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { configOf, openTimeoutMs, sessionSettings } from './connection.ts';
import { withAdvice } from './errors.ts';
import { prepareSchema } from './migrations.ts';
import { createPools, type Pools } from './pool.ts';
import type { Target } from './url.ts';

const reportSilentAfterMs = 500;

/** A migration may take long, or wait for a lock or for a lost standby. */
const reportBusyAfterMs = 5000;

/** What each session must have, by itself or by its role: a setting of the server can be changed while this process runs. */
const required: Record<string, number | string> = { ...sessionSettings, synchronous_commit: 'on' };
const checked = ['server_encoding', 'fsync', 'full_page_writes', ...Object.keys(required)];
const serverSources = ['default', 'environment variable', 'configuration file', 'command line'];

interface Setting {
  name: string;
  setting: string;
  /** Where it is set (https://www.postgresql.org/docs/18/view-pg-settings.html). */
  source: string;
}

/** Whether a setting of a session is the required one, or remote_apply, and set for the session, the role or the database. */
const isSafe = ({ name, setting, source }: Setting) =>
  !serverSources.includes(source) && [String(required[name]), 'remote_apply'].includes(setting);

/**
 * Requires UTF-8, so that names are returned unchanged, a disk that is waited for, and the settings of a session: a pooler may drop them, and then the
 * role must carry them. Throws OpenError.
 */
function checkSettings(found: Setting[], role: string, strict = false): void {
  const settings = Object.fromEntries(found.map(({ name, setting }) => [name, setting]));
  const { server_encoding: encoding } = settings;
  if (encoding !== 'UTF8') throw new OpenError(`has the encoding ${encoding}; it must be UTF8.`);
  const off = ['fsync', 'full_page_writes'].find((name) => settings[name] === 'off');
  if (strict && off) throw new OpenError(`can lose or damage acknowledged data at a loss of power: ${off} is off.`);
  if (found.every((each) => !(each.name in required) || isSafe(each))) return;
  const changes = Object.entries(required).map(
    ([name, value]) => `ALTER ROLE ${pg.escapeIdentifier(role)} SET ${name} = ${value}`,
  );
  throw new OpenError(
    `is behind a pooler that drops the settings of sessions: run ${changes.join('; ')}, and restart the pooler.`,
  );
}

/** Opens pools, after checking the settings; migrates the schema if `options.migrate` allows (`migrated`: the names). Rejects with OpenError. */
export async function openPools(target: Target, options: OpenOptions) {
  const warnAfter = (ms: number, sentence: string) =>
    setTimeout(() => options.logger?.warn(`DATABASE_URL: ${target.label} ${sentence}`), ms);
  const notes = [
    warnAfter(reportSilentAfterMs, `does not answer yet: it is asked again for ${openTimeoutMs / 1000} s`),
  ];
  let pools: Pools | undefined;
  try {
    pools = createPools(await configOf(target), target, options.metrics);
    const rows = await pools.keyed.read(
      (connection) =>
        connection<
          (Setting & { role: string })[]
        >`SELECT name, setting, source, session_user AS role FROM pg_settings WHERE name = ANY (${checked})`,
      openTimeoutMs,
    );
    checkSettings(rows, rows[0]?.role ?? '', options.strict);
    clearTimeout(notes[0]);
    const busy = `has been at work on the schema for ${reportBusyAfterMs / 1000} s: pg_stat_activity shows what it waits for.`;
    notes.push(warnAfter(reportBusyAfterMs, busy));
    return { pools, migrated: await prepareSchema(pools.keyed, options) };
  } catch (error) {
    await pools?.close();
    const cause = error instanceof ApiError ? error.cause : withAdvice(error);
    const sentence =
      cause instanceof OpenError ? cause.message : `cannot be opened: ${messageOf(cause) || codeOf(cause)}.`;
    throw new OpenError(`${target.label} ${sentence}`);
  } finally {
    for (const note of notes) clearTimeout(note);
  }
}
