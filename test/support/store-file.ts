/** Creates a store with an API key before a server starts, and checks a store's file without a server. */
import path from 'node:path';
import Database from 'better-sqlite3';
import { newSecret, scopes } from '../../src/core/accounts.ts';
import { openStore } from '../../src/store/open.ts';
import { temporaryFolder } from './app.ts';
import type { Promises } from './client.ts';

export interface MadeStore {
  folder: string;
  file: string;
  /** An API key with both scopes. */
  key: string;
  /** Settings for a server that opens it. */
  env: { DATABASE_URL: string };
}

/** Creates a store without pets and closes it. */
export async function makeStore(folder = temporaryFolder()): Promise<MadeStore> {
  const file = path.join(folder, 'store.db');
  const env = { DATABASE_URL: `sqlite:${file}` };
  const store = await openStore(env.DATABASE_URL, { now: () => new Date() });
  const secret = newSecret(false);
  await store.accounts.addAccount('zoo');
  await store.accounts.addKey({ account: 'zoo', name: 'till', scopes: [...scopes], lifetimeMs: null, secret });
  await store.close();
  return { folder, file, key: secret.key, env };
}

/** Names of acknowledged pets that are not in the file under their id. Throws if the file is corrupt. */
export function missingFrom(file: string, promises: Promises): string[] {
  const database = new Database(file, { readonly: true });
  try {
    const verdict = database.pragma('integrity_check', { simple: true });
    if (verdict !== 'ok') throw new Error(`${file}: ${verdict}`);
    const names = new Map(database.prepare('SELECT id, name FROM pet').raw().all() as [number, string][]);
    return [...promises].filter(([name, id]) => names.get(id) !== name).map(([name]) => name);
  } finally {
    database.close();
  }
}
