/** Tests the loss, the freeze and the replacement of a PostgreSQL primary under load, with a real primary and its synchronous standby behind one address. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { type Acknowledged, type Creators, type Reply, startLoad } from '../../support/newest-load.ts';
import { missingPostgres, type Server, startPair } from '../../support/postgres.ts';
import { startServer } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { figure, tier } from '../../support/tier.ts';

beforeEach(({ skip }) => {
  if (missingPostgres) skip(missingPostgres);
});

/** Slightly less than the time that a request waits for a database. */
const waitMs = 2000;

/** Starts servers on an address that leads to a new database of the primary, under load. */
async function start(primary: Server, number: number, creators: Creators) {
  const database = `animals_${randomBytes(4).toString('hex')}`;
  const sql = postgres(primary.url('postgres'), { max: 1 });
  await sql.unsafe(`CREATE DATABASE ${database}`);
  await sql.end();
  const address = await startProxy(primary.url(database));
  const env = { DATABASE_URL: address.through(primary.url(database)), OPS_PORT: 'off' };
  const first = await startServer({ env });
  const others = await Promise.all(Array.from({ length: number - 1 }, () => startServer({ env })));
  const servers = [first, ...others];
  const load = startLoad(servers, await first.firstKey(), creators);
  return { servers, load, address, database };
}

/** How many of the acknowledged animals a database lacks, and how many it has twice. */
async function compare(databaseUrl: string, acknowledged: Acknowledged[]) {
  const sql = postgres(databaseUrl, { max: 1 });
  const rows = await sql<{ name: string }[]>`SELECT name FROM pet`;
  await sql.end();
  const stored = new Set(rows.map(({ name }) => name));
  return {
    lost: acknowledged.filter(({ name }) => !stored.has(name)).length,
    duplicates: rows.length - stored.size,
  };
}

const succeeded = ({ status }: Reply) => status === 200 || status === 201;

async function failOver(primary: Server, standby: Server) {
  const { servers, load, address, database } = await start(primary, 1, { retry: 4, once: 12 });
  const { replies, acknowledged, stale } = load;
  await sleep(1500);
  const killing = performance.now();
  await primary.kill();
  const killed = performance.now();
  await standby.promote();
  const promoted = performance.now();
  address.leadTo(standby.url(database));
  await sleep(1500);
  await load.stop();

  const failed = replies.filter((reply) => !succeeded(reply));
  // Only requests that were in flight at the loss may fail. Later ones wait for the new primary, as long as a request may wait.
  const others = failed.filter(({ begun, ended }) => ended < killing || (begun > killed && promoted - begun < waitMs));
  expect(others, `killed at ${killed}, promoted at ${promoted}`).toEqual([]);
  expect(failed.map(({ status, retryAfter }) => [status, retryAfter])).toEqual(failed.map(() => [503, '1']));
  expect(await servers[0]?.end('SIGTERM')).toMatchObject({ code: 0 });
  const again = replies.find(({ kind, begun, ended, status }) => {
    return kind === 'create' && status === 201 && ended > promoted && begun > killed;
  });
  return {
    ...(await compare(standby.url(database), acknowledged)),
    acknowledged: acknowledged.length,
    stale: stale.length,
    failed: failed.length,
    writingAgainMs: (again?.ended ?? Number.POSITIVE_INFINITY) - promoted,
  };
}

test('the primary is killed and the standby promoted, under load: no acknowledged pet is lost, and none is duplicated', {
  timeout: 1_800_000,
}, async () => {
  for (let round = 1; round <= tier(1, 20); round++) {
    const { primary, standby, end } = await startPair();
    const found = await failOver(primary, standby).finally(end);
    figure(
      `failover ${round}: ${found.acknowledged} acknowledged, ${found.lost} lost, ${found.duplicates} duplicates, ${found.failed} in flight got 503, writing again ${Math.round(found.writingAgainMs)} ms after the promotion`,
    );
    expect(found).toMatchObject({ lost: 0, duplicates: 0, stale: 0 });
    expect(found.acknowledged).toBeGreaterThan(100);
    expect(found.writingAgainMs).toBeLessThan(1000);
  }
});

test('the primary freezes: every request gets a response, and when the primary continues nothing is lost or duplicated', {
  timeout: 180_000,
}, async () => {
  const { primary, end } = await startPair();
  onTestFinished(end);
  const { servers, load, database } = await start(primary, 1, { retry: 4, once: 12 });
  const { replies, acknowledged } = load;
  await sleep(1000);
  primary.freeze();
  const frozen = performance.now();
  await sleep(tier(7000, 60_000));
  primary.thaw();
  const thawed = performance.now();
  await sleep(3000);
  await load.stop();

  const meanwhile = replies.filter(({ ended }) => ended > frozen && ended < thawed);
  const slowest = Math.max(...replies.map(({ begun, ended }) => ended - begun));
  const compared = await compare(primary.url(database), acknowledged);
  figure(
    `frozen primary: ${meanwhile.length} responses meanwhile, the slowest after ${Math.round(slowest)} ms; ${acknowledged.length} acknowledged, ${compared.lost} lost`,
  );
  expect(meanwhile.length).toBeGreaterThan(16);
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200, 201, 503]));
  expect(compared).toEqual({ lost: 0, duplicates: 0 });
  expect(replies.some(({ status, begun }) => status === 201 && begun > thawed)).toBe(true);
  expect(await servers[0]?.end('SIGTERM')).toMatchObject({ code: 0 });
});
