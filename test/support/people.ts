/** A store with people, without the pages: what it keeps of them, and for how long. */
import { expect } from 'vitest';
import { type ApiKey, newSecret, type Owner } from '../../src/core/accounts.ts';
import { newToken } from '../../src/core/people.ts';
import { borrowStore, textRows } from './store.ts';

const start = Date.UTC(2027, 0, 1);
/** The time so many milliseconds after the start of the store's clock. */
export const at = (ms: number) => new Date(start + ms);

export const newHash = () => newToken().hash;

/** A store with two people, whose passwords have the hash `old`; their accounts have the ids 1 and 2. */
export async function openWithPeople() {
  const { store, setTime, databaseUrl } = await borrowStore();
  const { accounts, people } = store;
  setTime(at(0));
  for (const name of ['ada', 'ben']) await people.signUp(name, 'old');
  const addKey = async (account: Owner = 'ada', lifetimeMs: number | null = null) => {
    const key = { account, name: 'k', scopes: ['pets:read' as const], lifetimeMs, secret: newSecret(false) };
    return (await accounts.addKey(key)) as ApiKey;
  };
  return {
    store,
    databaseUrl,
    ...accounts,
    ...people,
    addKey,
    addSession: async (accountId = 1) => {
      const hash = newHash();
      expect(await people.addSession(hash, accountId, 'old')).toBe(true);
      return hash;
    },
    addLink: async (...link: ['invitation' | 'reset', accountId: number | null]) => {
      const hash = newHash();
      await people.addLink(hash, ...link);
      return hash;
    },
    /** Sets the clock to `ms` after the start. */
    setTime: (ms: number) => setTime(at(ms)),
    count: async (table: string) => Number((await textRows(databaseUrl, `SELECT count(*) AS n FROM ${table}`))[0]?.n),
  };
}
