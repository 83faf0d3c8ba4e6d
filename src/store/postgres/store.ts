/** The shared store: a PostgreSQL database that several servers can use. */

import { limits } from '../../core/limits.ts';
import { openAccounts } from '../accounts.ts';
import { type CommandName, serializable, stepsOf } from '../commands.ts';
import type { Engine } from '../engine.ts';
import { openMessages, openPeople, openTrail } from '../people.ts';
import { openPets } from '../pets.ts';
import type { OpenOptions, Store } from '../store.ts';
import { certificatesExpireAt } from './certificates.ts';
import { createHosts } from './hosts.ts';
import { startLease } from './lease.ts';
import { prepareDatabase } from './open.ts';
import { findPet, listPets, startAdder } from './pets.ts';
import { createPool, type Pool, sessionSettings } from './pool.ts';
import { createReads, type Reads } from './reads.ts';
import { runSteps } from './sql.ts';
import { readTarget } from './url.ts';

/** Readiness timeout. */
const checkWithinMs = 1000;

/** Commands of the server itself and of requests with a key. All others come from strangers, or from people on the account pages. */
const forKeys: ReadonlySet<CommandName> = new Set(['recordUses', 'addMessage', 'takeEvents']);

/** A command rejects, and does not run again, if its outcome is unknown: the connection was lost during COMMIT, or the deadline passed. */
export function createEngine(pool: Pool): Omit<Engine, 'pets'> & { reads: Reads; close: () => Promise<unknown> } {
  const reads = createReads(pool, false);
  const readsOfStrangers = createReads(pool, true);
  return {
    reads,
    close: () => Promise.all([reads.close(), readsOfStrangers.close()]),
    write: (name, input) =>
      pool.write(
        (sql) =>
          sql.begin(
            (transaction) => runSteps(transaction, stepsOf(name, input)),
            serializable.has(name) ? 'SERIALIZABLE' : undefined,
          ),
        { stranger: !forKeys.has(name) },
      ),
    read: (query, forKey = false) => (forKey ? reads : readsOfStrangers).run(query),
  };
}

/** Opens the database; migrates it if `options.migrate` allows. Rejects with OpenError. */
export async function openPostgres(databaseUrl: string, options: OpenOptions): Promise<Store> {
  const target = readTarget(databaseUrl);
  const hosts = createHosts(target);
  await prepareDatabase(target, () => hosts.connect(() => undefined), options);
  const lease = startLease(target, hosts);
  const pool = createPool({
    connect: (onClose) => hosts.connect(onClose, sessionSettings),
    lease,
    size: target.connections,
    maxWaiting: limits.waitingReads,
    onCommit: options.onCommit,
    onQuery: options.onQuery,
  });
  hosts.onMove(({ timeline }) => pool.dropOlder(timeline));
  const adder = startAdder(pool);
  const { reads, close: closeReads, ...both } = createEngine(pool);
  const engine: Engine = {
    ...both,
    pets: {
      list: (query, begun) => listPets(reads, query, begun),
      find: (id, begun) => findPet(reads, id, begun),
      state: reads.state,
      remote: true,
      add: adder.add,
    },
  };
  const at = () => options.now().getTime();
  const expiry = certificatesExpireAt(target.ssl);

  return {
    pets: openPets(engine, at),
    accounts: openAccounts(engine, at),
    messages: openMessages(engine, options.maxMessages),
    people: openPeople(engine, at),
    trail: openTrail(engine, at),

    check: async () => void (await pool.read((sql) => sql`SELECT 1`, { withinMs: checkWithinMs })),

    measure: () => ({
      waitingWrites: adder.waiting(),
      walBytes: undefined,
      ...pool.measure(),
      primary: {
        timeline: hosts.primary()?.timeline ?? 0,
        evidenceAgeMs: lease.evidenceAgeMs(),
        certificatesExpireAt: expiry,
      },
    }),

    async close() {
      await adder.close();
      await closeReads();
      await pool.close();
      lease.close();
    },
  };
}
