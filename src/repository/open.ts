/** Chooses the engine by the scheme of the database's URL. */

import { openSqlite } from './sqlite/store.ts';
import type { OpenOptions, Repository } from './store.ts';

/** Opens the store, creating and migrating it as needed. Rejects with OpenError. */
export async function openRepository(databaseUrl: string, options: OpenOptions): Promise<Repository> {
  if (!databaseUrl.startsWith('sqlite:')) {
    // Loaded where it is asked for: it would take a tenth of each start.
    const { openPostgres } = await import('./postgres/store.ts');
    return openPostgres(databaseUrl, options);
  }
  return openSqlite(sqliteFile(databaseUrl), options);
}

/** The path of the file that a URL of the embedded store names. */
export function sqliteFile(databaseUrl: string): string {
  return databaseUrl.slice('sqlite:'.length);
}
