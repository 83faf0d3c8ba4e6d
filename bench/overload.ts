/** npm run bench -- --overload: what the servers answer in time at several times their capacity. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { baseRows, type Contender } from './modes.ts';
import type { Answers, OpenLoop } from './openloop.ts';
import { startPostgres } from './postgres.ts';
import { type CopySeed, onCore, startPlain, startStore } from './servers.ts';

const connectionCounts = [400, 2000, 4500];
/** Of the capacity. 0.9 comes last, to show how soon all is normal after an overload. */
const factors = [2, 3, 4, 0.9];
const port = 4101;

/** The server's share of a core, so that the client on the other core is never late. */
const periodUs = 10_000;
const quotaUs = 3000;

/** Limits the process to its share by a cgroup of version 1 or 2. Returns a function that removes the limit; undefined: there is no such cgroup. */
function limitShare(pid: number): (() => void) | undefined {
  const root = '/sys/fs/cgroup';
  const first = existsSync(`${root}/cpu`);
  const parent = first ? `${root}/cpu` : root;
  const group = path.join(parent, `animal-bench-${pid}`);
  try {
    mkdirSync(group);
    if (first) {
      writeFileSync(`${group}/cpu.cfs_period_us`, String(periodUs));
      writeFileSync(`${group}/cpu.cfs_quota_us`, String(quotaUs));
    } else writeFileSync(`${group}/cpu.max`, `${quotaUs} ${periodUs}`);
    writeFileSync(`${group}/cgroup.procs`, String(pid));
  } catch {
    return undefined;
  }
  return () => {
    writeFileSync(`${parent}/cgroup.procs`, String(pid));
    rmdirSync(group);
  };
}

async function run(task: OpenLoop): Promise<Answers> {
  const client = fileURLToPath(import.meta.resolve('./openloop.ts'));
  const { stdout } = await promisify(execFile)(...onCore(1, [process.execPath, client, JSON.stringify(task)]));
  return JSON.parse(stdout);
}

/**
 * The highest rate of 2xx, in requests per second. A closed loop alone does not find it: with thousands of connections, each request waits for all
 * others. So more is offered than the best rate so far, until that no longer raises it.
 */
async function capacityOf(
  good: (task: Pick<OpenLoop, 'rate' | 'connections'>) => Promise<number>,
  connections: number,
): Promise<number> {
  let capacity = Math.max(await good({ rate: 0, connections: 64 }), await good({ rate: 0, connections }));
  for (;;) {
    const found = await good({ rate: 2 * capacity, connections });
    if (found <= 1.05 * capacity) return Math.max(found, capacity);
    capacity = found;
  }
}

const percent = (part: number, whole: number) => `${Math.round((100 * part) / whole)} %`.padStart(6);

function line(name: string, task: OpenLoop, factor: number, capacity: number, found: Answers): string {
  const { fromSending, fromSchedule, p99, refused, lost, late } = found;
  const load = `${task.work.padEnd(7)} ${String(task.connections).padStart(5)}  ${String(factor).padStart(4)} ×`;
  const times = `${percent(fromSending, capacity)} ${percent(fromSchedule, capacity)}  ${String(p99 ?? '∞').padStart(6)} ms`;
  return `${load}  ${name.padEnd(14)} ${times}  ${refused}/s refused, ${lost} lost${late > 0 ? `, client late ${late} times` : ''}`;
}

interface Overload {
  engine: string;
  works: OpenLoop['work'][];
  seconds: number;
  print: (line: string) => void;
}

/** Plain Fastify and the animal store, each with a store of its own. */
async function startBoth(folder: string, copySeed: CopySeed, engine: string): Promise<Contender[]> {
  const own = await copySeed(baseRows, path.join(folder, 'own.db'));
  const plain = await copySeed(baseRows, path.join(folder, 'plain.db'));
  const database = engine === 'postgres' ? await startPostgres(own.file, ['animals', 'plain']) : undefined;
  const [ownUrl, plainUrl] = database?.urls ?? [];
  const environment = ownUrl === undefined ? {} : { DATABASE_URL: ownUrl };
  const onPlain = await startPlain(plain.file, port, 'on', plainUrl);
  const onOwn = await startStore(own.file, port + 1, environment);
  const stop = () => onOwn.stop().then(database?.stop);
  return [
    { name: 'plain Fastify', key: database ? own.key : plain.key, server: onPlain },
    { name: 'animal store', key: own.key, server: { ...onOwn, stop } },
  ];
}

/** Loads each server in turn, and passes a line for each load to `print`. */
export async function measureOverload(
  folder: string,
  copySeed: CopySeed,
  { engine, works, seconds, print }: Overload,
): Promise<void> {
  const contenders = await startBoth(folder, copySeed, engine);
  const undo: (() => void)[] = [];
  try {
    const taskOf = ({ server, key }: Contender, task: Pick<OpenLoop, 'work' | 'rate' | 'connections'>): OpenLoop => {
      return { port: Number(new URL(server.url).port), key, rows: baseRows, seconds, ...task };
    };
    for (const contender of contenders) {
      for (const work of works) await run(taskOf(contender, { work, rate: 0, connections: 32 }));
      const end = limitShare(contender.server.pid);
      if (end) undo.push(end);
      else
        print(
          'There is no cgroup that this user can change: the servers have a whole core, and the client may be late.',
        );
    }
    print(
      '2xx within 500 ms of sending and of the schedule, as a share of the capacity; 99th percentile of all answers',
    );
    for (const work of works)
      for (const connections of connectionCounts)
        for (const contender of contenders) {
          const capacity = await capacityOf(
            async (load) => (await run(taskOf(contender, { work, ...load }))).good,
            connections,
          );
          print(`${work}, ${connections} connections, ${contender.name}: ${capacity}/s`);
          for (const factor of factors) {
            const task = taskOf(contender, { work, rate: Math.round(factor * capacity), connections });
            print(line(contender.name, task, factor, capacity, await run(task)));
          }
        }
  } finally {
    for (const end of undo) end();
    await Promise.all(contenders.map(({ server }) => server.stop()));
  }
}
