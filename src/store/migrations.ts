/** Reads the files of migrations/, and which releases can run on their schema. */
import fs from 'node:fs';

/** The oldest release that can run on a schema. */
interface OldestRelease {
  /** Such as 1.0.0; empty if the file does not say it. */
  release: string;
  /** The latest schema version that this release knows. */
  version: number;
}

export interface Migration {
  /** 1 for `0001_initial.sql`. */
  version: number;
  name: string;
  text: string;
  oldest: OldestRelease;
}

const firstLine = /^-- Release (\d+\.\d+\.\d+) \(schema version (\d+)\) and later run on this schema\.\n/;

/** The files of an engine, in order. If its first line names no release, no earlier release can run on the schema after it. */
export function readMigrations(engine: 'sqlite' | 'postgres'): Migration[] {
  const folder = new URL(`../../migrations/${engine}/`, import.meta.url);
  const names = fs.readdirSync(folder).filter((name) => name.endsWith('.sql'));
  return names.sort().map((name) => {
    const version = Number.parseInt(name, 10);
    // A tool may have written CRLF.
    const text = fs.readFileSync(new URL(name, folder), 'utf8').replaceAll('\r\n', '\n');
    const [, release = '', known = version] = firstLine.exec(text) ?? [];
    return { version, name, text, oldest: { release, version: Number(known) } };
  });
}

/** The oldest release that can run on the schema after all of `migrations`: each may need a later one than those before. */
export function oldestOn(migrations: Migration[]): OldestRelease {
  return migrations.reduce((oldest, next) => (next.oldest.version >= oldest.version ? next.oldest : oldest), {
    release: '',
    version: 0,
  });
}

export const latestOf = (migrations: Migration[]) => migrations.at(-1)?.version ?? 0;

/** The schema of a store. */
export interface SchemaState {
  /** The latest version that was applied; 0 if none was. */
  version: number;
  oldest: OldestRelease;
}

/** Why this release cannot run on a schema; undefined if it can. */
export function obstacleOf({ version, oldest }: SchemaState, latest: number): string | undefined {
  if (oldest.version <= latest) return undefined;
  const hint = oldest.release && `: use release ${oldest.release} or later`;
  return `has schema version ${version}; this release supports versions up to ${latest}${hint}.`;
}
