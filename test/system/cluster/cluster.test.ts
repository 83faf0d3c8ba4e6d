/** Tests a cluster of Patroni behind HAProxy under load, with a fault after the other: nothing is lost or duplicated, and no id is given twice. */
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { beforeEach, expect, test } from 'vitest';
import { compare, maxBackends, nothing, type Reply, startLoad } from '../../support/newest-load.ts';
import { type Server, startServer } from '../../support/process.ts';
import { figure } from '../../support/tier.ts';
import { type Cluster, missingPatroni, settled, startPatroni } from './patroni.ts';

beforeEach(({ skip }) => {
  if (missingPatroni) skip(missingPatroni);
});

type Node = Cluster['nodes'][number];

interface Surroundings {
  cluster: Cluster;
  entrance: ReturnType<Cluster['addEntrance']>;
  primary: Node;
  standby: Node;
}

/** A fault, and how long it lasts. The function that it returns ends it. */
type Fault = [name: string, ms: number, inject: (surroundings: Surroundings) => unknown];

const freeze =
  (what: 'manager' | 'postgres' | 'both', role: 'primary' | 'standby' = 'primary') =>
  ({ [role]: node }: Surroundings) => {
    node.signal(what, 'SIGSTOP');
    return () => node.signal(what, 'SIGCONT');
  };

/** Both standbys lack what is committed from now on. */
const loseWal = (cluster: Cluster, primary: Node) =>
  cluster.cutOff(
    primary,
    cluster.nodes.filter((node) => node !== primary),
  );

const faults: Fault[] = [
  ['kill -9 of the primary', 15_000, ({ primary }) => primary.signal('postgres', 'SIGKILL')],
  ['PostgreSQL stands still for 5 s', 5000, freeze('postgres')],
  ['PostgreSQL stands still for 30 s', 30_000, freeze('postgres')],
  ['the machine of the primary stands still for 40 s', 40_000, freeze('both')],
  ['the manager of the primary hangs for 45 s', 45_000, freeze('manager')],
  [
    'the same, and HAProxy is reloaded after 25 s',
    45_000,
    (surroundings) => {
      setTimeout(surroundings.entrance.reload, 25_000);
      return freeze('manager')(surroundings);
    },
  ],
  [
    'switchover',
    15_000,
    ({ cluster, primary, standby }) =>
      cluster.control('switchover', '--leader', primary.name, '--candidate', standby.name, '--force'),
  ],
  ['the synchronous standby stands still for 15 s', 15_000, freeze('both', 'standby')],
  ['no WAL reaches the standbys for 20 s', 20_000, ({ cluster, primary }) => loseWal(cluster, primary)],
  [
    'no WAL reaches the standbys for 3.5 s, then the machine of the primary dies, and starts after 40 s',
    40_000,
    async ({ cluster, primary }) => {
      const deliver = loseWal(cluster, primary);
      // Longer than the deadline of a create.
      await sleep(3500);
      primary.signal('both', 'SIGKILL');
      return () => {
        deliver();
        primary.start();
      };
    },
  ],
  [
    'the machine of the primary dies, and starts after 40 s',
    40_000,
    ({ primary }) => {
      primary.signal('both', 'SIGKILL');
      return primary.start;
    },
  ],
  [
    'the machines of the primary and of the synchronous standby die together, and start after 40 s',
    40_000,
    ({ primary, standby }) => {
      for (const node of [primary, standby]) node.signal('both', 'SIGKILL');
      return () => {
        for (const node of [primary, standby]) node.start();
      };
    },
  ],
  [
    "etcd's leader is killed for 15 s",
    15_000,
    async ({ cluster: { etcd } }) => {
      const leads = await Promise.all(etcd.map((member) => member.isLeader()));
      const leader = etcd[leads.indexOf(true)];
      leader?.kill();
      return leader?.start;
    },
  ],
  [
    'all of etcd is killed for 30 s',
    30_000,
    ({ cluster: { etcd } }) => {
      for (const member of etcd) member.kill();
      return () => {
        for (const member of etcd) member.start();
      };
    },
  ],
  ['the primary is cut off from everything for 40 s', 40_000, ({ cluster, primary }) => cluster.unplug(primary)],
  [
    'HAProxy is killed, and starts after 1 s',
    1000,
    ({ entrance }) => {
      entrance.signal('SIGKILL');
      return entrance.start;
    },
  ],
];

/** The primary, and the standby that is synchronous. */
async function rolesOf({ control, nodes }: Cluster) {
  const members: { Member: string; Role: string }[] = JSON.parse(await control('list', '--format', 'json'));
  const nodeOf = (role: string) =>
    nodes.find(({ name }) => members.some((each) => each.Role === role && each.Member === name)) as Node;
  return { primary: nodeOf('Leader'), standby: nodeOf('Sync Standby') };
}

const urlOf = ({ address }: Node, database = 'animals') => `postgres://postgres@${address}/${database}`;

/** A cluster with two servers under load. */
async function start() {
  const cluster = await startPatroni();
  const sql = postgres(urlOf((await rolesOf(cluster)).primary, 'postgres'), { max: 1, fetch_types: false });
  await sql`CREATE DATABASE animals`;
  await sql.end();
  const entrance = cluster.addEntrance();
  const servers: Server[] = [];
  while (servers.length < 2) {
    const { address, under } = cluster.addMachine();
    const env = { HOST: address, DATABASE_URL: entrance.databaseUrl('animals'), OPS_PORT: 'off' };
    servers.push(await startServer({ under, env }));
  }
  const load = startLoad(servers, await (servers[0] as Server).firstKey());

  /** When a node became the primary of each timeline, and the most connections of servers to one node. */
  const watched = { promotions: new Map<number, number>(), most: 0, stopped: false };
  const watching = cluster.nodes.map(async (node) => {
    for (; !watched.stopped; await sleep(100)) {
      const { timeline = 0, backends = 0 } = (await node.ask()) ?? {};
      if (timeline > 0 && !watched.promotions.has(timeline)) watched.promotions.set(timeline, performance.now());
      watched.most = Math.max(watched.most, backends);
    }
  });
  async function stop() {
    await load.stop();
    watched.stopped = true;
    await Promise.all(watching);
  }
  await sleep(3000);
  return { cluster, entrance, servers, load, watched, stop };
}

type Run = Awaited<ReturnType<typeof start>>;

/** The longest of the times between these. */
const longestGap = (times: number[]) => Math.max(...times.map((time, at) => time - (times[at - 1] ?? time)));

/** Injects a fault, waits until the cluster has settled, and returns and prints what clients saw meanwhile. */
async function observe([name, ms, inject]: Fault, { cluster, entrance, load, watched }: Run) {
  await settled(cluster);
  await sleep(2000);
  const { replies, stale, renamed, acknowledged } = load;
  const [staleBefore, renamedBefore, acknowledgedBefore] = [stale.length, renamed.length, acknowledged.length];
  const { primary, standby } = await rolesOf(cluster);
  const from = performance.now();
  const heal = await inject({ cluster, entrance, primary, standby });
  await sleep(ms);
  if (typeof heal === 'function') heal();
  await settled(cluster);
  await sleep(2000);
  const to = performance.now();
  const within = replies.filter(({ ended }) => ended > from && ended < to);
  const reads = within.filter(({ kind, status }) => kind === 'read' && status === 200);
  const isCreate = ({ kind, status }: Reply) => kind === 'create' && status === 201;
  const promoted = [...watched.promotions.values()].filter((at) => at > from);
  const writingAgain = promoted.map(
    (at) => (within.find((reply) => isCreate(reply) && reply.ended > at)?.ended ?? Number.POSITIVE_INFINITY) - at,
  );
  const found = {
    ...(await compare(urlOf((await rolesOf(cluster)).primary), acknowledged.slice(acknowledgedBefore))),
    stale: stale.slice(staleBefore),
    renamed: renamed.slice(renamedBefore),
    writingAgainMs: Math.max(0, ...writingAgain),
    slowestMs: Math.max(...within.map(({ begun, ended }) => ended - begun)),
    unexpected: within.filter(({ status }) => ![200, 201, 404, 503].includes(status)),
  };
  figure(name, {
    ...found,
    stale: found.stale.length,
    renamed: found.renamed.length,
    unexpected: found.unexpected.length,
    acknowledged: acknowledged.length - acknowledgedBefore,
    withoutReadsS: longestGap([from, ...reads.map(({ ended }) => ended), to]) / 1000,
    promotionAfterS: promoted.map((at) => ((at - from) / 1000).toFixed(1)).join(' and ') || '-',
  });
  return found;
}

/** FAULT=… in the environment: only the faults whose name contains it. */
const chosen = faults.filter(([name]) => name.includes(process.env.FAULT ?? ''));

test('through one HAProxy nothing is lost, duplicated or stale, whatever fails', { timeout: 1_800_000 }, async () => {
  const run = await start();
  const { cluster, servers, load, watched } = run;
  for (const fault of chosen) {
    const [name] = fault;
    const found = await observe(fault, run);
    expect.soft(found, name).toMatchObject({ ...nothing, stale: [], renamed: [], unexpected: [] });
    expect.soft(found.slowestMs, `${name}: the slowest answer`).toBeLessThan(5000);
    expect.soft(found.writingAgainMs, `${name}: writing again`).toBeLessThan(3000);
  }
  await run.stop();
  expect(await compare(urlOf((await rolesOf(cluster)).primary), load.acknowledged)).toEqual(nothing);
  expect(watched.most).toBeLessThanOrEqual(servers.length * maxBackends);
});
