/** npm run bench -- --overload: what plain Fastify and the animal store answer in time at several times their capacity. */
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import type { Answers, OpenLoop } from './openloop.ts';
import { baseRows, startServers } from './servers.ts';
import { runOpenLoop } from './works.ts';

const connectionCounts = [400, 2000, 4500];
/** Of the capacity. 0.9 comes last, to show how soon all is normal after an overload. */
const factors = [2, 3, 4, 0.9];

const root = '/sys/fs/cgroup';

/** Limits the process to 30 % of a core, so that the client on the other core is never late. Returns a function that removes the limit. */
function limitShare(pid: number): () => void {
  // cgroups of version 1 or 2.
  const parent = existsSync(`${root}/cpu`) ? `${root}/cpu` : root;
  const group = `${parent}/animal-bench-${pid}`;
  mkdirSync(group);
  if (parent === root) writeFileSync(`${group}/cpu.max`, '3000 10000');
  else {
    writeFileSync(`${group}/cpu.cfs_period_us`, '10000');
    writeFileSync(`${group}/cpu.cfs_quota_us`, '3000');
  }
  writeFileSync(`${group}/cgroup.procs`, String(pid));
  return () => {
    writeFileSync(`${parent}/cgroup.procs`, String(pid));
    rmdirSync(group);
  };
}

type Load = Pick<OpenLoop, 'rate' | 'connections'>;

/**
 * The highest rate of 2xx, in requests per second. A closed loop alone does not find it: with thousands of connections, each request waits for all
 * others. So more is offered than the best rate so far, until that no longer raises it.
 */
async function capacityOf(run: (load: Load) => Promise<Answers>, connections: number): Promise<number> {
  const good = async (load: Load) => (await run(load)).good;
  let capacity = Math.max(await good({ rate: 0, connections: 64 }), await good({ rate: 0, connections }));
  for (;;) {
    const found = await good({ rate: 2 * capacity, connections });
    if (found <= 1.05 * capacity) return Math.max(found, capacity);
    capacity = found;
  }
}

function describe({ fromSending, fromSchedule, p99, refused, lost, late }: Answers, capacity: number): string {
  const [sending, schedule] = [fromSending, fromSchedule].map((rate) => `${Math.round((100 * rate) / capacity)} %`);
  const client = late > 0 ? `, client late ${late} times` : '';
  return `${sending} of sending, ${schedule} of the schedule, p99 ${p99 ?? '∞'} ms, ${refused}/s refused, ${lost} lost${client}`;
}

interface Overload {
  engine: string | undefined;
  seconds: number;
  isChosen: (work: string) => boolean;
}

/** Loads each server in turn, and prints a line for each load. Needs a cgroup that this user can change. */
export async function measureOverload(folder: string, { engine, seconds, isChosen }: Overload): Promise<void> {
  const { servers, stop } = await startServers(baseRows, engine, folder);
  const compared = servers.filter(({ name }) => /^(plain|animal)/.test(name));
  const works = (['random', 'create'] as const).filter(isChosen);
  const undo: (() => void)[] = [];
  try {
    console.log('2xx within 500 ms, as a share of the capacity; p99 of all answers');
    for (const { pid } of compared) undo.push(limitShare(pid));
    for (const work of works)
      for (const connections of connectionCounts)
        for (const { name, port, key } of compared) {
          const run = (load: Load) => runOpenLoop({ port, key, rows: baseRows, seconds, work, ...load });
          const capacity = await capacityOf(run, connections);
          console.log(`${work}, ${connections} connections, ${name}: ${capacity}/s`);
          for (const factor of factors) {
            const answers = await run({ rate: Math.round(factor * capacity), connections });
            console.log(`  ${factor} ×: ${describe(answers, capacity)}`);
          }
        }
  } finally {
    for (const end of undo) end();
    await stop();
  }
}
