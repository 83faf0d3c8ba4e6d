/** Applies and records each SQL file of migrations/sqlite once, in order, each in its own transaction. */
import fs from 'node:fs';
import type Database from 'better-sqlite3';

const folder = new URL('../../../migrations/sqlite/', import.meta.url);

/** The files in order; the version of `0001_initial.sql` is 1. */
function files(): { version: number; name: string }[] {
  const names = fs.readdirSync(folder).filter((name) => name.endsWith('.sql'));
  return names.sort().map((name) => ({ version: Number.parseInt(name, 10), name }));
}

/** The schema version that this release reads and writes; SQLite's user_version holds it. */
export function latestVersion(): number {
  return files().at(-1)?.version as number;
}

/** Migrates the store to `latestVersion()`. Safe in concurrent processes: each step takes the write lock, then checks the version again. */
export function migrate(
  connection: Database.Database,
  applicationId: number,
  now: Date,
  onMigration?: (name: string) => void,
): void {
  for (const { version, name } of files()) {
    const step = connection.transaction(() => {
      if (currentVersion(connection) >= version) return;
      connection.exec(fs.readFileSync(new URL(name, folder), 'utf8'));
      connection
        .prepare('INSERT INTO migration (version, name, applied_at) VALUES (?, ?, ?)')
        .run(version, name, now.getTime());
      connection.pragma(`application_id = ${applicationId}`);
      connection.pragma(`user_version = ${version}`);
      onMigration?.(name);
    });
    if (currentVersion(connection) < version) step.immediate();
  }
}

/** The schema version of an open store. */
export function currentVersion(connection: Database.Database): number {
  return Number(connection.pragma('user_version', { simple: true }));
}
