/** Applies and records each SQL file of migrations/sqlite once, in order, each in its own transaction. */
import Database from 'better-sqlite3';
import { quoted } from '../../core/schema.ts';
import { latestOf, type Migration, oldestOn, readMigrations, type SchemaState, saysOldest } from '../migrations.ts';

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
  const correct = connection.transaction(() => {
    if (!saysOldest(readState(connection), migrations)) recordOldest(connection, migrations);
  });
  if (!saysOldest(readState(connection), migrations)) correct.immediate();
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

/** White space and comments, which mean nothing; and what is quoted, in which they do. */
const blanks = /('(?:[^']|'')*'|"(?:[^"]|"")*")|(?:--[^\n]*|[ \t\n\f\r])+/g;

/** Each statement of the schema, after its type and name: SQLite runs the statement, whatever its row says that it is. */
const readSchema = (connection: Database.Database) =>
  connection
    .prepare<[], [string, string]>(
      "SELECT format('%s %s', type, name), CAST(sql AS TEXT) FROM sqlite_schema WHERE sql <> ''",
    )
    .raw()
    .all()
    .map(([what, text]) => [what, text.replace(blanks, (_, kept = ' ') => kept)] as const);

/** What may stand in a store besides: an index that is not unique, and the tables of ANALYZE and of Litestream. */
function isHarmless(what: string, text: string): boolean {
  if (text.startsWith('CREATE INDEX ')) return true;
  return text.startsWith('CREATE TABLE ') && /^table (?:sqlite_stat\d|_litestream_\w+)$/.test(what);
}

/** How the schema differs from that of the migrations up to its version. Later migrations are not known. */
export function differencesOf(connection: Database.Database): string[] {
  const version = currentVersion(connection);
  const migrations = readMigrations('sqlite');
  if (version > latestOf(migrations)) return [];
  const model = new Database(':memory:');
  for (const migration of migrations) if (migration.version <= version) model.exec(migration.text);
  const made = new Map(readSchema(model));
  model.close();
  const found = readSchema(connection);
  const names = new Set(found.map(([what]) => what));
  return [
    ...found
      .filter(([what, sql]) => made.get(what) !== sql && (made.has(what) || !isHarmless(what, sql)))
      .map(([what]) => `${quoted(what).slice(1, -1)} is ${made.has(what) ? 'changed' : 'added'}`),
    ...[...made.keys()].filter((what) => !names.has(what)).map((what) => `${what} is missing`),
  ];
}
