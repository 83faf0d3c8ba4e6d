/** Tests a real cluster of Patroni under load, with a fault after the other: nothing is lost or doubled, and no server answers with an older state. */
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { beforeEach, expect, test } from 'vitest';
import { longestGap, type Reply, startLoad } from '../support/newest-load.ts';
import { type Cluster, type Machine, missingPatroni, type Node, settled, startPatroni } from '../support/patroni.ts';
import { type Server, startServer } from '../support/process.ts';
import { missingRelease, previous, sourceOf } from '../support/releases.ts';
import { figure } from '../support/tier.ts';

beforeEach(({ skip }) => {
  if (missingPatroni) skip(missingPatroni);
});

/** When a node became the primary of each timeline, and the most connections of servers to one node. */
function watchNodes(nodes: Node[]) {
  const promotions = new Map<number, number>();
  let most = 0;
  let stopped = false;
  const running = nodes.map(async (node) => {
    while (!stopped) {
      const { timeline = 0, backends = 0 } = (await node.ask()) ?? {};
      if (timeline > 0 && !promotions.has(timeline)) promotions.set(timeline, performance.now());
      most = Math.max(most, backends);
      await sleep(100);
    }
  });
  return {
    promotions,
    most: () => most,
    async stop() {
      stopped = true;
      await Promise.all(running);
    },
  };
}

interface Surroundings {
  cluster: Cluster;
  primary: Node;
  standby: Node;
  machines: Machine[];
}

interface Fault {
  name: string;
  /** How long it lasts. */
  ms: number;
  inject: (surroundings: Surroundings) => (() => void) | undefined;
  /** Servers that cannot reach the primary meanwhile. */
  cutOff?: number[];
}

const freeze =
  (what: 'manager' | 'postgres' | 'both') =>
  ({ primary }: Surroundings) => {
    primary.signal(what, 'SIGSTOP');
    return () => primary.signal(what, 'SIGCONT');
  };

const faults: Fault[] = [
  {
    name: 'kill -9 of the primary',
    ms: 15_000,
    inject: ({ primary }) => void primary.signal('postgres', 'SIGKILL'),
  },
  { name: 'PostgreSQL stands still for 5 s', ms: 5000, inject: freeze('postgres') },
  { name: 'PostgreSQL stands still for 30 s', ms: 30_000, inject: freeze('postgres') },
  { name: 'a frozen machine comes back after 40 s', ms: 40_000, inject: freeze('both') },
  { name: 'the manager alone hangs for 45 s', ms: 45_000, inject: freeze('manager') },
  {
    name: 'switchover',
    ms: 15_000,
    inject: ({ cluster, primary, standby }) =>
      void cluster.control('switchover', '--leader', primary.name, '--candidate', standby.name, '--force'),
  },
  {
    name: 'the standby is killed',
    ms: 15_000,
    inject: ({ standby }) => void standby.signal('postgres', 'SIGKILL'),
  },
  {
    name: 'the machine of the primary dies, and starts after 40 s',
    ms: 40_000,
    inject({ primary }) {
      primary.signal('both', 'SIGKILL');
      return primary.start;
    },
  },
  {
    name: 'etcd stands still for 8 s',
    ms: 8000,
    inject({ cluster }) {
      cluster.etcd.signal('SIGSTOP');
      return () => cluster.etcd.signal('SIGCONT');
    },
  },
  {
    name: 'the primary is cut off from its peers and etcd for 40 s',
    ms: 40_000,
    inject({ cluster, primary }) {
      const others = [...cluster.nodes.filter((node) => node !== primary), cluster.etcd];
      const heal = others.map((other) => cluster.cut(primary, other));
      return () => heal.forEach((each) => void each());
    },
  },
  {
    name: 'the network splits for 40 s: primary and first server, all others',
    ms: 40_000,
    cutOff: [0],
    inject({ cluster, primary, machines: [first, ...machines] }) {
      const here = [primary, first as Machine];
      const there = [...cluster.nodes.filter((node) => node !== primary), cluster.etcd, ...machines];
      const heal = here.flatMap((one) => there.map((other) => cluster.cut(one, other)));
      return () => heal.forEach((each) => void each());
    },
  },
];

const seconds = (ms: number | undefined) => (ms === undefined ? '-' : (ms / 1000).toFixed(1));

/** The primary, and the standby that is synchronous. */
function rolesOf({ control, nodes }: Cluster): { primary: Node; standby: Node } {
  const members: { Member: string; Role: string }[] = JSON.parse(control('list', '--format', 'json'));
  const nodeOf = (role: string) =>
    nodes.find(({ name }) => members.some((each) => each.Role === role && each.Member === name)) as Node;
  return { primary: nodeOf('Leader'), standby: nodeOf('Sync Standby') };
}

/** Most connections of a server to a node: those of its pool, 2 that end, and the one that asks for the timeline. */
const maxBackends = 10 + 2 + 1;

/** One server for each source; undefined is this project's. */
async function startServers(cluster: Cluster, sources: (string | undefined)[]) {
  const { primary } = rolesOf(cluster);
  const sql = postgres(`postgres://postgres@${primary.address}/postgres`, { max: 1 });
  await sql`CREATE DATABASE animals`;
  await sql.end();
  const machines = sources.map(() => cluster.addMachine());
  const servers: Server[] = [];
  for (const [index, { address, under }] of machines.entries()) {
    const env = { HOST: address, DATABASE_URL: cluster.databaseUrl('animals'), OPS_PORT: 'off' };
    const source = sources[index];
    servers.push(await startServer({ under, env, ...(source !== undefined && { source }) }));
  }
  const key = await (servers[0] as Server).firstKey();
  return { machines, servers, key };
}

/** Injects a fault under load, waits until the cluster has settled, and returns and prints what clients saw meanwhile. */
async function observe(
  fault: Fault,
  cluster: Cluster,
  machines: Machine[],
  { replies, stale }: ReturnType<typeof startLoad>,
  promotions: Map<number, number>,
) {
  await settled(cluster);
  await sleep(2000);
  const from = performance.now();
  const staleBefore = stale.length;
  const heal = fault.inject({ cluster, machines, ...rolesOf(cluster) });
  await sleep(fault.ms);
  heal?.();
  await settled(cluster);
  await sleep(2000);
  const to = performance.now();
  const within = replies.filter(({ ended }) => ended > from && ended < to);
  const reaching = machines.map((_, server) => server).filter((server) => !fault.cutOff?.includes(server));
  const isCreate = ({ server, kind, status }: Reply) =>
    reaching.includes(server) && kind === 'create' && status === 201;
  const withoutReads = reaching.map((own) =>
    longestGap(replies, ({ server, kind, status }) => server === own && kind === 'read' && status === 200, from, to),
  );
  const writingAgain = [...promotions.values()]
    .filter((at) => at > from)
    .map((at) => (within.find((reply) => isCreate(reply) && reply.ended > at)?.ended ?? Number.POSITIVE_INFINITY) - at);
  const found = {
    withoutCreatesMs: longestGap(replies, isCreate, from, to),
    withoutReadsMs: Math.max(...withoutReads),
    writingAgainMs: Math.max(0, ...writingAgain),
    slowestMs: Math.max(...within.map(({ begun, ended }) => ended - begun)),
    stale: stale.length - staleBefore,
    unexpected: within.filter(({ status }) => ![200, 201, 404, 503].includes(status)),
  };
  const counts = Object.entries(Object.groupBy(within, ({ status }) => String(status)));
  figure(
    `${fault.name}: without creates ${seconds(found.withoutCreatesMs)} s, without reads ${seconds(found.withoutReadsMs)} s, ` +
      `writing ${seconds(found.writingAgainMs)} s after the promotion, slowest ${seconds(found.slowestMs)} s, ` +
      `${found.stale} stale; ${counts.map(([status, some]) => `${some?.length} × ${status}`).join(', ')}`,
  );
  return found;
}

/** The acknowledged animals that the primary lacks, and those that it has twice. */
async function compare(cluster: Cluster, acknowledged: string[]): Promise<{ lost: number; doubled: number }> {
  await settled(cluster);
  const sql = postgres(`postgres://postgres@${rolesOf(cluster).primary.address}/animals`, { max: 1 });
  const rows = await sql<{ name: string }[]>`SELECT name FROM pet`;
  await sql.end();
  const stored = new Set(rows.map(({ name }) => name));
  return { lost: acknowledged.filter((name) => !stored.has(name)).length, doubled: rows.length - stored.size };
}

/** FAULT=… in the environment: only the faults whose name contains it. */
const chosen = faults.filter(({ name }) => name.includes(process.env.FAULT ?? ''));

test('nothing is lost, doubled or stale, whatever fails', { timeout: 1_800_000 }, async () => {
  const cluster = await startPatroni();
  const { machines, servers, key } = await startServers(cluster, [undefined, undefined, undefined]);
  const load = startLoad(servers, key);
  const watched = watchNodes(cluster.nodes);
  await sleep(3000);
  for (const fault of chosen) {
    const found = await observe(fault, cluster, machines, load, watched.promotions);
    expect.soft(found, fault.name).toMatchObject({ stale: 0, unexpected: [] });
    expect.soft(found.slowestMs, `${fault.name}: the slowest answer`).toBeLessThan(5000);
    expect.soft(found.writingAgainMs, `${fault.name}: writing again`).toBeLessThan(3000);
  }
  await load.stop();
  await watched.stop();
  const compared = await compare(cluster, load.acknowledged);
  figure(
    `${load.acknowledged.length} acknowledged, ${JSON.stringify(compared)}, ${load.stale.length} stale, at most ${watched.most()} backends`,
  );
  expect(compared).toEqual({ lost: 0, doubled: 0 });
  expect(watched.most()).toBeLessThanOrEqual(servers.length * maxBackends);
});

test(`beside a server of release ${previous} nothing is lost or doubled`, { timeout: 1_800_000 }, async ({ skip }) => {
  const missing = missingRelease(previous);
  if (missing) skip(missing);
  const cluster = await startPatroni();
  const { machines, servers, key } = await startServers(cluster, [undefined, sourceOf(previous)]);
  const load = startLoad(servers, key);
  const watched = watchNodes(cluster.nodes);
  await sleep(3000);
  for (const name of ['kill -9 of the primary', 'the manager alone hangs for 45 s', 'switchover']) {
    const fault = faults.find((each) => each.name === name) as Fault;
    await observe(fault, cluster, machines, load, watched.promotions);
  }
  await load.stop();
  await watched.stop();
  expect(await compare(cluster, load.acknowledged)).toEqual({ lost: 0, doubled: 0 });
});
