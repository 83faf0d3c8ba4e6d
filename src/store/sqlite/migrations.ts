/** Applies and records each SQL file of migrations/sqlite once, in order, each in its own transaction. */
import type Database from 'better-sqlite3';
import { quoted } from '../../core/schema.ts';
import { latestOf, type Migration, oldestOn, readMigrations, type SchemaState } from '../migrations.ts';

/** The schema version that this release reads and writes. */
export const latestVersion = () => latestOf(readMigrations('sqlite'));

/** Migrates the store to `latestVersion()`, and returns the names of what it applied. Safe in concurrent processes: each step takes the write lock, then checks the version again. */
export function migrate(connection: Database.Database, applicationId: number, now: Date): string[] {
  const done: string[] = [];
  const migrations = readMigrations('sqlite');
  for (const [index, { version, name, text }] of migrations.entries()) {
    const step = connection.transaction(() => {
      if (currentVersion(connection) >= version) return;
      connection.exec(text);
      connection
        .prepare('INSERT INTO migration (version, name, applied_at) VALUES (?, ?, ?)')
        .run(version, name, now.getTime());
      connection.pragma(`application_id = ${applicationId}`);
      recordOldest(connection, migrations.slice(0, index + 1));
      done.push(name);
    });
    if (currentVersion(connection) < version) step.immediate();
  }
  return done;
}

/** A release refuses a store whose user_version is later than its own latest version. Row 0 names the oldest release that can run, for people. */
function recordOldest(connection: Database.Database, applied: Migration[]): void {
  const { release, version } = oldestOn(applied);
  connection
    .prepare('INSERT INTO migration VALUES (0, ?, 0) ON CONFLICT (version) DO UPDATE SET name = excluded.name')
    .run(release);
  connection.pragma(`user_version = ${version}`);
}

/** The schema version of an open store; 0 if it is empty. */
export const currentVersion = (connection: Database.Database) => readState(connection).version;

export function readState(connection: Database.Database): SchemaState {
  const version = Number(connection.pragma('user_version', { simple: true }));
  // A view of this name could be without an end.
  const table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migration'";
  if (!connection.prepare(table).get()) return { version, oldest: { release: '', version } };
  const [latest, release] = connection
    .prepare<[], [bigint | null, string | null]>(
      'SELECT max(version), max(name) FILTER (WHERE version = 0) FROM migration',
    )
    .raw()
    .get() ?? [null, null];
  return { version: Math.max(version, Number(latest)), oldest: { release: release ?? '', version } };
}

/**
 * Triggers that no migration makes as they are, which could change what is stored, and triggers and indexes that are missing. The migrations after the schema's
 * version do not count, and of a later schema nothing is known.
 */
export function differencesOf(connection: Database.Database): string[] {
  const { version } = readState(connection);
  const migrations = readMigrations('sqlite');
  if (version > latestOf(migrations)) return [];
  const made = new Map(
    migrations
      .filter((migration) => migration.version <= version)
      .flatMap(({ text }) => [...text.matchAll(/^CREATE (?:INDEX (\w+)|TRIGGER (\w+)[\s\S]*?^END)/gm)])
      .map(([sql, index, trigger]) => (index ? [`index ${index}`, ''] : [`trigger ${trigger}`, sql])),
  );
  // The statement of a trigger alone counts. An earlier release kept the CRLF of a checkout.
  const found = new Map(
    connection
      .prepare<[], [string, string]>(
        `SELECT type || ' ' || name, iif(type = 'trigger', replace(sql, char(13), ''), '')
         FROM sqlite_schema WHERE type IN ('trigger', 'index')`,
      )
      .raw()
      .all(),
  );
  return [...new Set([...found.keys(), ...made.keys()])].flatMap((what) => {
    if (!made.has(what)) return what.startsWith('trigger ') ? [`${quoted(what).slice(1, -1)} is added`] : [];
    if (!found.has(what)) return [`${what} is missing`];
    return made.get(what) === found.get(what) ? [] : [`${what} is changed`];
  });
}
