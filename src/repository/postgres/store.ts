/** The shared store: a PostgreSQL database that several servers can use. */

import type { OpenOptions, Repository } from '../store.ts';
import { openAccounts } from './accounts.ts';
import { createConnector } from './connection.ts';
import { prepareDatabase } from './open.ts';
import { openPeople, openTrail } from './people.ts';
import { findPet, listPets } from './pets.ts';
import { createPool, sessionSettings } from './pool.ts';
import { readTarget } from './url.ts';
import { startAdder } from './writer.ts';

/** Reads that may wait for a connection. Beyond them, reads are rejected with 503. */
const maxWaiting = 10_000;

/** Readiness timeout. */
const checkWithinMs = 1000;

/** Opens the database; migrates it if `options.migrate` allows. Rejects with OpenError. */
export async function openPostgres(databaseUrl: string, options: OpenOptions): Promise<Repository> {
  const target = readTarget(databaseUrl);
  const connect = createConnector(target);
  await prepareDatabase(target, () => connect(() => undefined), options);
  const pool = createPool({
    connect: (onClose) => connect(onClose, sessionSettings),
    size: target.connections,
    maxWaiting,
    onCommit: options.onCommit,
    onQuery: options.onQuery,
  });
  const adder = startAdder(pool);
  const at = () => options.now().getTime();

  return {
    // No state(): it would need a round trip, as much as reading the page itself.
    pets: {
      list: (query) => listPets(pool, query),
      add: (pet, retry) => adder.add(pet, retry, at()),
      find: (id) => findPet(pool, id),
    },

    accounts: openAccounts(pool, at),

    messages: {
      async add({ id, accountId, message, status, createdAt }) {
        await pool.write(
          (sql) => sql`
            INSERT INTO message (id, account_id, message, status, created_at)
            VALUES (${id}, ${accountId}, ${message}, ${status}, ${Date.parse(createdAt)})`,
        );
      },
    },

    people: openPeople(pool, at),
    trail: openTrail(pool, at),

    check: async () => void (await pool.read((sql) => sql`SELECT 1`, checkWithinMs)),

    measure: () => ({ waitingWrites: adder.waiting(), walBytes: undefined, ...pool.measure() }),

    async close() {
      await adder.close();
      await pool.close();
    },
  };
}
