/** How a command comes to the store that DATABASE_URL names, and how it refuses. */

import { openRepository, sqliteFile } from '../repository/open.ts';
import type { Repository } from '../repository/store.ts';
import { readEnvironment } from '../server/environment.ts';

/** A refusal that the operator reads as one sentence. */
export class CommandError extends Error {}

export function found<Found>(value: Found | undefined, sentence: string): Found {
  if (value === undefined) throw new CommandError(sentence);
  return value;
}

export const now = () => new Date();

export async function withStore<Result>(
  use: (store: Repository) => Promise<Result>,
  onMigration?: (name: string) => void,
): Promise<Result> {
  const store = await openRepository(readEnvironment().DATABASE_URL, { now, onMigration });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** The path of the store's file, for commands that are SQLite's. */
export function storeFile(): string {
  const url = readEnvironment().DATABASE_URL;
  if (!url.startsWith('sqlite:'))
    throw new CommandError('DATABASE_URL names PostgreSQL: use its own tools, such as pg_dump.');
  return sqliteFile(url);
}
