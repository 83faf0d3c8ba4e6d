/** Tests a primary that lives on after its standby was promoted: no server writes to it again, and none reads it once another has been written to. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { longestGap, type Reply, startLoad } from '../../support/newest-load.ts';
import { missingPostgres, type Server as Postgres, startPair } from '../../support/postgres.ts';
import { launchCli, startServer } from '../../support/process.ts';
import { figure, patientMs } from '../../support/tier.ts';

beforeEach(({ skip }) => {
  if (missingPostgres) skip(missingPostgres);
});

/** Starts servers on a new database of both hosts. The host that is the primary at first is the first in the URL. */
async function startOn(primary: Postgres, standby: Postgres, query: string) {
  const database = `animals_${randomBytes(4).toString('hex')}`;
  const sql = postgres(primary.url('postgres'), { max: 1 });
  await sql.unsafe(`CREATE DATABASE ${database}`);
  await sql.end();
  const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
  const databaseUrl = `postgres://app@${hosts}/${database}${query}`;
  const start = () => startServer({ env: { DATABASE_URL: databaseUrl, OPS_PORT: 'off' } });
  const servers = [await start(), await start()] as const;
  return { start, databaseUrl, servers, key: await servers[0].firstKey(), database };
}

/** Promotes the standby under load, while the primary lives on. */
async function depose(query: string) {
  const { primary, standby, end } = await startPair();
  onTestFinished(end);
  const { start, databaseUrl, servers, key, database } = await startOn(primary, standby, query);
  const load = startLoad([...servers], key);
  await sleep(3000);
  await standby.promote();
  const promoted = performance.now();
  await sleep(6000);
  const late = await start();
  const lateStart = await late.call(key, 'GET', '/v1/pets?limit=1');
  const command = await launchCli(['account', 'list'], { env: { DATABASE_URL: databaseUrl } }).end();
  await load.stop();
  const stopped = performance.now();
  const { replies, acknowledged, stale } = load;
  const sql = postgres(standby.url(database), { max: 1 });
  const rows = await sql<{ name: string }[]>`SELECT name FROM pet`;
  await sql.end();
  const stored = new Set(rows.map(({ name }) => name));
  const again = (kind: Reply['kind']) =>
    Math.max(
      ...servers.map((_, server) =>
        longestGap(
          replies,
          (reply) => reply.server === server && reply.kind === kind && reply.status < 300 && reply.status > 0,
          promoted,
          stopped,
        ),
      ),
    );
  return {
    lateStart,
    command: command.code,
    stale,
    lost: acknowledged.filter((name) => !stored.has(name)).length,
    doubled: rows.length - stored.size,
    withoutCreates: again('create'),
    withoutReads: again('read'),
    slowest: Math.max(...replies.map(({ begun, ended }) => ended - begun)),
    // 404: a read of an animal that the old primary does not have, which `stale` lists.
    other: replies.filter(({ status }) => ![200, 201, 404, 503].includes(status)),
  };
}

test('servers move to the promoted standby, and one that starts later does not choose the old primary', {
  timeout: patientMs,
}, async () => {
  const found = await depose('');
  figure(`promotion beside a living primary: ${Math.round(found.withoutCreates)} ms without creates`);
  expect(found).toMatchObject({ lost: 0, doubled: 0, other: [] });
  expect(found.withoutCreates).toBeLessThan(3000);
  expect(found.withoutReads).toBeLessThan(3000);
  expect(found.slowest).toBeLessThan(5000);
  expect(found.lateStart.status).toBe(200);
  // A command, too, asks both hosts.
  expect(found.command).toBe(0);
});

test('with reads=lease no answer is stale: without evidence, requests get 503', {
  timeout: patientMs,
}, async () => {
  const found = await depose('?reads=lease');
  figure(`the same with reads=lease: ${found.stale.length} stale`);
  expect(found).toMatchObject({ lost: 0, doubled: 0, stale: [], other: [] });
  expect(found.slowest).toBeLessThan(5000);
  // The old primary is no standby, and the new one has none that confirms its commits.
  expect(found.lateStart.status).toBe(503);
});
