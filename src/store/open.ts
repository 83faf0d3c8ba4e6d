/** Opens the store with the engine that the scheme of the database URL names. */
import { messageOf } from '../core/errors.ts';
import { openAccounts } from './accounts.ts';
import { realFile } from './files.ts';
import { openMessages, openPeople } from './people.ts';
import { readTarget } from './postgres/url.ts';
import { openSqlite } from './sqlite/sqlite.ts';
import { OpenError, type OpenOptions, type Store } from './store.ts';

async function openEngine(databaseUrl: string, options: OpenOptions) {
  if (databaseUrl.startsWith('sqlite:'))
    return openSqlite(sqliteFile(databaseUrl), options, databaseUrl.slice('sqlite:'.length));
  // Loaded only when needed: it would add a tenth to every start.
  const { openPostgres } = await import('./postgres/postgres.ts');
  return openPostgres(databaseUrl, options);
}

/** Opens the store, creating and migrating it as needed. Rejects with OpenError. */
export async function openStore(databaseUrl: string, options: OpenOptions): Promise<Store> {
  const { engine, ...store } = await openEngine(databaseUrl, options);
  const at = () => options.now().getTime();
  return {
    ...store,
    pets: {
      ...engine.pets,
    },
    accounts: openAccounts(engine, at),
    messages: openMessages(engine),
    people: openPeople(engine, at),
  };
}

/** The file of a `sqlite:` URL. Throws OpenError if this user may not look for it. */
export function sqliteFile(databaseUrl: string): string {
  const file = databaseUrl.slice('sqlite:'.length);
  try {
    return realFile(file);
  } catch (cause) {
    throw new OpenError(`${file} cannot be opened: ${messageOf(cause)}.`, { cause });
  }
}

/** The URL of a store without user, password and parameters, as DATABASE_URL may have it. Throws OpenError if the URL is malformed. */
export function describeStore(databaseUrl: string): string {
  return databaseUrl.startsWith('sqlite:') ? `sqlite:${sqliteFile(databaseUrl)}` : readTarget(databaseUrl).label;
}
