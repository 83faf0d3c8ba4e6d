/** The comparisons: the animal store against node:http and plain Fastify, or against itself with fewer animals or on SQLite. */
import path from 'node:path';
import { pagesBesideWrites, type Workload, workloads } from './load.ts';
import { fillPostgres, startPostgres } from './postgres.ts';
import { type CopySeed, type Running, startBare, startPlain, startStore } from './servers.ts';

export interface Contender {
  name: string;
  server: Running;
  key: string;
  /** Its own workloads, if it holds another number of animals. */
  workloads?: Workload[];
}

interface Mode {
  /** Name of the result files in bench/results. */
  record: string;
  workloads: Workload[];
  /** Starts the servers on new stores in `folder`: the baseline first, the animal store last. */
  start(folder: string): Promise<Contender[]>;
}

export interface Choice {
  rows: number;
  engine: string;
}

export const baseRows = 10_000;
const port = 4101;

export function chooseMode(choice: Choice, copySeed: CopySeed): Mode {
  const onPostgres = choice.engine === 'postgres';
  if (onPostgres && choice.rows > baseRows) return growthOnPostgres(choice, copySeed);
  if (onPostgres) return databases(choice, copySeed);
  if (choice.rows > baseRows) return growth(choice, copySeed);
  return baselines(choice, copySeed);
}

const withGoal = (goal: number, all: Workload[]) => all.map((workload) => ({ ...workload, goal }));

function baselines({ rows }: Choice, copySeed: CopySeed): Mode {
  return {
    record: 'latest',
    workloads: [...workloads(rows), pagesBesideWrites(rows)],
    async start(folder) {
      const own = await copySeed(rows, path.join(folder, 'own.db'));
      const silent = await copySeed(rows, path.join(folder, 'silent.db'));
      const logging = await copySeed(rows, path.join(folder, 'logging.db'));
      const { key } = own;
      const store = await startStore(own.file, port);
      return [
        { name: 'node:http', key, server: await startBare(store, key, folder, port + 1) },
        { name: 'plain Fastify', key, server: await startPlain(silent.file, port + 2, 'off') },
        { name: 'plain, with log', key, server: await startPlain(logging.file, port + 3, 'on') },
        { name: 'animal store', key, server: store },
      ];
    },
  };
}

function growth({ rows }: Choice, copySeed: CopySeed): Mode {
  return {
    record: `rows-${rows}`,
    workloads: withGoal(0.9, workloads(rows)),
    async start(folder) {
      const small = await copySeed(baseRows, path.join(folder, 'small.db'));
      const large = await copySeed(rows, path.join(folder, 'large.db'));
      const onSmall = await startStore(small.file, port);
      const onLarge = await startStore(large.file, port + 1);
      return [
        { name: `${baseRows} animals`, key: small.key, server: onSmall, workloads: workloads(baseRows) },
        { name: `${rows} animals`, key: large.key, server: onLarge },
      ];
    },
  };
}

function growthOnPostgres({ rows }: Choice, copySeed: CopySeed): Mode {
  return {
    record: `postgres-rows-${rows}`,
    workloads: withGoal(0.9, workloads(rows)),
    async start(folder) {
      const { file, key } = await copySeed(baseRows, path.join(folder, 'store.db'));
      const database = await startPostgres(file, ['small', 'large']);
      const [small = '', large = ''] = database.urls;
      await fillPostgres(small, baseRows);
      await fillPostgres(large, rows);
      const onSmall = await startStore(file, port, { DATABASE_URL: small });
      const onLarge = await startStore(file, port + 1, { DATABASE_URL: large });
      const stop = () => onLarge.stop().then(database.stop);
      return [
        { name: `${baseRows} animals`, key, server: onSmall, workloads: workloads(baseRows) },
        { name: `${rows} animals`, key, server: { ...onLarge, stop } },
      ];
    },
  };
}

const databaseGoals: Record<string, number> = { list: 4, random: 2, get: 3, create: 4, none: 1 };

/** Plain Fastify has a database of its own: its ids come from a sequence, those of the animal store do not. */
function databases({ rows }: Choice, copySeed: CopySeed): Mode {
  return {
    record: 'postgres',
    workloads: workloads(rows).map((workload) => ({ ...workload, goal: databaseGoals[workload.name] ?? 1 })),
    async start(folder) {
      const { file, key } = await copySeed(rows, path.join(folder, 'store.db'));
      const database = await startPostgres(file, ['animals', 'plain']);
      const [own = '', plain = ''] = database.urls;
      const onPlain = await startPlain(file, port + 2, 'off', plain);
      const onSqlite = await startStore(file, port);
      const onPostgres = await startStore(file, port + 1, { DATABASE_URL: own });
      const stop = () => onPostgres.stop().then(database.stop);
      return [
        { name: 'plain, with pg', key, server: onPlain },
        { name: 'on SQLite', key, server: onSqlite },
        { name: 'on PostgreSQL', key, server: { ...onPostgres, stop } },
      ];
    },
  };
}
