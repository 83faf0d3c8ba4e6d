/** The shared store: a PostgreSQL database that several servers can use. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type CommandName, stepsOf } from '../commands.ts';
import type { Engine } from '../engine.ts';
import { type OpenOptions, unavailable } from '../store.ts';
import { openPools } from './open.ts';
import { createKeyReads, createPetReads, startAdder } from './pets.ts';
import type { Pools } from './pool.ts';
import { runSteps } from './sql.ts';
import { readTarget } from './url.ts';

/** Readiness timeout. */
const checkWithinMs = 1000;

/** Commands of the server itself and of requests with a key. All others come from strangers, or from people on the account pages. */
const forKeys: ReadonlySet<CommandName> = new Set(['recordUses', 'addMessage']);

/** A command rejects, and does not run again, if its outcome is unknown: the connection was lost during COMMIT, or the deadline passed. */
export function createEngine({ keyed, strangers }: Pools): Pick<Engine, 'read' | 'write'> {
  const poolFor = (forKey: boolean | undefined) => (forKey ? keyed : strangers);
  return {
    write: (name, input) =>
      poolFor(forKeys.has(name)).write((connection) =>
        connection.begin(() => runSteps(connection, stepsOf(name, input))),
      ),
    read: (query, forKey) => poolFor(forKey).read((connection) => runSteps(connection, query())),
  };
}

/** Opens the database, for open.ts; migrates it if `options.migrate` allows. Rejects with OpenError. */
export async function openPostgres(databaseUrl: string, options: OpenOptions) {
  const { pools, migrated } = await openPools(readTarget(databaseUrl), options);
  const { keyed, strangers } = pools;
  const pets = createPetReads(keyed);
  const [keys, otherKeys] = [createKeyReads(keyed), createKeyReads(strangers)];
  const adder = startAdder(keyed);
  const engine: Engine = {
    ...createEngine(pools),
    findKeyRow: (hash, forKey) => (forKey ? keys : otherKeys)(hash),
    pets: {
      list: pets.list,
      find: pets.find,
      isCurrent: pets.isCurrent,
      async add(pet, retry, keyId) {
        const added = await adder.add({ pet, retry, keyId, at: options.now().getTime() });
        if (!added) throw unavailable(new Error('no id is left for another animal'));
        return added;
      },
    },
  };

  return {
    engine,
    migrated,

    check: async () => void (await keyed.read((connection) => connection`SELECT 1`, checkWithinMs)),

    measure: () => ({ waitingWrites: adder.waiting(), walBytes: undefined, ...pools.measure() }),

    async close() {
      // The reads of this turn are sent then.
      await nextTurn();
      await adder.close();
      await pools.close();
    },
  };
}
