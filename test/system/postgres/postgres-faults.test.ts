/** Tests faults of PostgreSQL under load, with a real primary and its synchronous standby behind one address. */
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { type Creators, compare, maxBackends, nothing, type Reply, startLoad } from '../../support/newest-load.ts';
import { missingPostgres, startPair } from '../../support/postgres.ts';
import { startServer } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { tier } from '../../support/tier.ts';

beforeEach(({ skip }) => {
  if (missingPostgres) skip(missingPostgres);
});

/** Slightly less than the time that a request waits for a database. */
const waitMs = 2000;

const isSuccess = ({ status }: Reply) => status === 200 || status === 201;

async function start(creators: Creators) {
  const { primary, standby, end } = await startPair();
  onTestFinished(end);
  const watcher = postgres(primary.url('postgres'), { max: 1 });
  await watcher`CREATE DATABASE animals`;
  const address = await startProxy(primary.url('animals'));
  const databaseUrl = address.url;
  const server = await startServer({ env: { DATABASE_URL: databaseUrl, OPS_PORT: 'off' } });
  const load = startLoad([server], await server.firstKey(), creators);

  let [most, stopped] = [0, false];
  const counting = (async () => {
    while (!stopped) {
      const rows = await watcher`SELECT FROM pg_stat_activity
        WHERE datname = 'animals' AND backend_type = 'client backend' AND application_name <> 'a test'`;
      most = Math.max(most, rows.length);
      await sleep(250);
    }
  })().catch(() => {});
  await expect.poll(() => load.acknowledged.length).toBeGreaterThan(100);

  /** Stops the load and the server, and compares what was acknowledged with what the database has. */
  async function expectComplete(databaseUrl: string) {
    await load.stop();
    stopped = true;
    await counting;
    await watcher.end({ timeout: 0 });
    await server.stop();
    expect(await compare(databaseUrl, load.acknowledged)).toEqual(nothing);
    expect([load.stale, load.renamed]).toEqual([[], []]);
  }
  return { primary, standby, address, load, expectComplete, most: () => most };
}

type Scene = Awaited<ReturnType<typeof start>>;

test.for(Array.from(Array(tier(1, 20)), (_, index) => index + 1))(
  'failover %d: the primary is killed and the standby promoted, under load: no acknowledged pet is lost, and none is duplicated',
  async () => {
    const { primary, standby, address, load, expectComplete } = await start({ retry: 4, once: 12 });
    const killing = performance.now();
    await primary.kill();
    // The proxy may not have closed its connections yet, and a server without a write under way would use one.
    address.leadTo(primary.url('animals'));
    const killed = performance.now();
    await standby.promote();
    const promoted = performance.now();
    address.leadTo(standby.url('animals'));
    await sleep(1500);
    await expectComplete(standby.url('animals'));

    const failed = load.replies.filter((reply) => !isSuccess(reply));
    // Only requests that were in flight at the loss may fail. Later ones wait for the new primary, as long as a request may wait.
    const others = failed.filter(
      ({ begun, ended }) => ended < killing || (begun > killed && promoted - begun < waitMs),
    );
    expect(others, `killed at ${killed}, promoted at ${promoted}`).toEqual([]);
    expect(failed.map(({ status, retryAfter }) => [status, retryAfter])).toEqual(failed.map(() => [503, '1']));
    const again = load.replies.find(({ kind, begun, ended, status }) => {
      return kind === 'create' && status === 201 && ended > promoted && begun > killed;
    });
    const writingAgainMs = (again?.ended ?? Number.POSITIVE_INFINITY) - promoted;
    expect(writingAgainMs).toBeLessThan(1000);
  },
);

/** Injects a fault; the function that it returns ends it. `reads`: the status of the reads meanwhile. */
const faults: { name: string; reads: [number]; inject: (scene: Scene) => Promise<() => unknown> }[] = [
  {
    name: 'a primary that freezes',
    reads: [503],
    async inject({ primary }) {
      primary.freeze();
      return primary.thaw;
    },
  },
  {
    name: 'a table that somebody locks',
    reads: [503],
    async inject({ primary }) {
      const sql = postgres(primary.url('animals'), { max: 1, connection: { application_name: 'a test' } });
      const other = await sql.reserve();
      await other`BEGIN`;
      await other`LOCK TABLE pet IN ACCESS EXCLUSIVE MODE`;
      return () => sql.end({ timeout: 0 });
    },
  },
  {
    name: 'a synchronous standby that freezes',
    reads: [200],
    async inject({ standby }) {
      standby.freeze();
      return standby.thaw;
    },
  },
];

test.for(faults)(
  '$name, under 64 clients: each request is answered in 5 s, none with 201, connections stay bounded, and normal within 5 s',
  async ({ reads, inject }) => {
    const scene = await start({ retry: 4, once: 28, readers: 32 });
    const { primary, load, expectComplete } = scene;
    const heal = await inject(scene);
    const begun = performance.now();
    await sleep(tier(7000, 60_000));
    const ended = performance.now();
    await heal();
    const again = (wanted: Reply['kind']) =>
      load.replies.find((reply) => reply.kind === wanted && isSuccess(reply) && reply.begun > ended);
    await expect.poll(() => again('create') && again('read'), { timeout: 20_000, interval: 20 }).toBeDefined();
    const recoveredMs = Math.max(again('create')?.ended ?? 0, again('read')?.ended ?? 0) - ended;
    await expectComplete(primary.url('animals'));

    const meanwhile = load.replies.filter((reply) => reply.begun > begun + 500 && reply.ended < ended);
    const statusesOf = (kind: Reply['kind']) =>
      [...new Set(meanwhile.filter((reply) => reply.kind === kind).map(({ status }) => status))].sort();
    // There may be more replies than a call can have arguments.
    const slowestMs = load.replies.reduce((slowest, { begun, ended }) => Math.max(slowest, ended - begun), 0);
    expect([statusesOf('create'), statusesOf('read')]).toEqual([[503], reads]);
    expect(load.replies.filter(({ status }) => ![200, 201, 503].includes(status))).toEqual([]);
    expect(scene.most()).toBeLessThanOrEqual(maxBackends);
    expect(slowestMs).toBeLessThan(5000);
    expect(recoveredMs).toBeLessThan(5000);
  },
);
