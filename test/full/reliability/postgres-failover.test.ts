/** Tests the loss and the freeze of a PostgreSQL primary under load, with a real primary and its synchronous standby. */
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { expect, onTestFinished, test } from 'vitest';
import { missingPostgres, type Server, startPair } from '../../support/postgres.ts';
import { type Server as AnimalStore, startServer } from '../../support/process.ts';
import { figure, tier } from '../../support/tier.ts';

/** Slightly less than the time that a request waits for a database. */
const waitMs = 2000;

interface Attempt {
  name: string;
  begun: number;
  ended: number;
  /** 0 if there was no response. */
  status: number;
  retryAfter: string | null;
}

/** Starts clients that add pets one after the other. One client in four retries with an Idempotency-Key; the others send each name once. */
function load(server: AnimalStore, key: string, clients: number): { attempts: Attempt[]; stop: () => Promise<void> } {
  const attempts: Attempt[] = [];
  let stopped = false;
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };

  async function send(name: string, more: Record<string, string>): Promise<Attempt> {
    const begun = performance.now();
    const body = JSON.stringify({ name, categoryId: 1 });
    const answer = await fetch(`${server.url}/v1/pets`, {
      method: 'POST',
      headers: { ...headers, ...more },
      body,
    }).then(
      async (response) => ({
        status: response.status,
        retryAfter: response.headers.get('retry-after'),
        text: await response.text(),
      }),
      () => ({ status: 0, retryAfter: null }),
    );
    const attempt = { name, begun, ended: performance.now(), status: answer.status, retryAfter: answer.retryAfter };
    attempts.push(attempt);
    return attempt;
  }

  async function client(retries: boolean): Promise<void> {
    while (!stopped) {
      const name = randomUUID();
      const more = retries ? { 'idempotency-key': name } : ({} as Record<string, string>);
      let { status } = await send(name, more);
      while (retries && status !== 201 && !stopped) ({ status } = await send(name, more));
    }
  }

  const running = Array.from({ length: clients }, (_, index) => client(index % 4 === 0));
  return {
    attempts,
    async stop() {
      stopped = true;
      await Promise.all(running);
    },
  };
}

async function makeDatabase(server: Server): Promise<string> {
  const name = `animals_${randomBytes(4).toString('hex')}`;
  const sql = postgres(server.url('postgres'), { max: 1 });
  await sql.unsafe(`CREATE DATABASE ${name}`);
  await sql.end();
  return name;
}

async function namesIn(databaseUrl: string): Promise<string[]> {
  const sql = postgres(databaseUrl, { max: 1 });
  const rows = await sql<{ name: string }[]>`SELECT name FROM pet`;
  await sql.end();
  return rows.map(({ name }) => name);
}

async function startOn(
  primary: Server,
  standby: Server,
): Promise<{ server: AnimalStore; key: string; database: string }> {
  const database = await makeDatabase(primary);
  const own = primary.url(database);
  // The standby comes first: the server must try it and skip it.
  const databaseUrl = own.replace(`:${primary.port}/`, `:${standby.port},127.0.0.1:${primary.port}/`);
  const server = await startServer({ env: { DATABASE_URL: databaseUrl } });
  return { server, key: await server.firstKey(), database };
}

interface Found {
  acknowledged: number;
  lost: number;
  duplicates: number;
  failed: number;
  writingAgainMs: number;
}

async function failOver(primary: Server, standby: Server): Promise<Found> {
  const { server, key, database } = await startOn(primary, standby);
  const { attempts, stop } = load(server, key, 16);
  await sleep(1500);
  const killing = performance.now();
  await primary.kill();
  const killed = performance.now();
  await standby.promote();
  const promoted = performance.now();
  await sleep(1500);
  await stop();

  const stored = await namesIn(standby.url(database));
  const added = attempts.filter(({ status }) => status === 201).map(({ name }) => name);
  const failed = attempts.filter(({ status }) => status !== 201);
  // Only requests that were in flight at the loss may fail. Later ones wait for the other host, as long as a request may wait.
  const since = failed.map(({ begun, ended }) => ({
    begun: Math.round(begun - killed),
    ended: Math.round(ended - killed),
  }));
  const promotedAt = Math.round(promoted - killed);
  expect(
    since.filter(({ begun, ended }) => ended < killing - killed || (begun > 0 && promotedAt - begun < waitMs)),
    `promoted at ${promotedAt}`,
  ).toEqual([]);
  expect(failed.map(({ status, retryAfter }) => [status, retryAfter])).toEqual(failed.map(() => [503, '1']));
  const again = attempts.filter(({ begun, ended, status }) => status === 201 && ended > promoted && begun > killed);
  expect((await server.end('SIGTERM')).code).toBe(0);
  return {
    acknowledged: added.length,
    lost: added.filter((name) => !stored.includes(name)).length,
    duplicates: stored.length - new Set(stored).size,
    failed: failed.length,
    writingAgainMs: Math.min(...again.map(({ ended }) => ended)) - promoted,
  };
}

test('the primary is killed and the standby promoted, under load: no acknowledged pet is lost, and none is duplicated', async ({
  skip,
}) => {
  if (missingPostgres) skip(missingPostgres);
  for (let round = 1; round <= tier(1, 20); round++) {
    const { primary, standby, end } = await startPair();
    const found = await failOver(primary, standby).finally(end);
    figure(
      `failover ${round}: ${found.acknowledged} acknowledged, ${found.lost} lost, ${found.duplicates} duplicates, ${found.failed} in flight got 503, writing again ${Math.round(found.writingAgainMs)} ms after the promotion`,
    );
    expect(found).toMatchObject({ lost: 0, duplicates: 0 });
    expect(found.acknowledged).toBeGreaterThan(100);
  }
}, 1_800_000);

test('the primary freezes: every request gets a response, and when the primary continues nothing is lost or duplicated', async ({
  skip,
}) => {
  if (missingPostgres) skip(missingPostgres);
  const { primary, standby, end } = await startPair();
  onTestFinished(end);
  const { server, key, database } = await startOn(primary, standby);
  const { attempts, stop } = load(server, key, 16);
  await sleep(1000);
  primary.freeze();
  const frozen = performance.now();
  await sleep(tier(7000, 60_000));
  primary.thaw();
  const thawed = performance.now();
  await sleep(3000);
  await stop();

  const stored = await namesIn(primary.url(database));
  const added = attempts.filter(({ status }) => status === 201);
  const meanwhile = attempts.filter(({ ended }) => ended > frozen && ended < thawed);
  const slowest = Math.max(...attempts.map(({ begun, ended }) => ended - begun));
  figure(
    `frozen primary: ${meanwhile.length} responses meanwhile, the slowest after ${Math.round(slowest)} ms; ${added.length} acknowledged, ${added.filter(({ name }) => !stored.includes(name)).length} lost`,
  );
  expect(meanwhile.length).toBeGreaterThan(16);
  expect(new Set(attempts.map(({ status }) => status))).toEqual(new Set([201, 503]));
  expect(added.filter(({ name }) => !stored.includes(name))).toEqual([]);
  expect(stored.length).toBe(new Set(stored).size);
  expect(added.some(({ begun }) => begun > thawed)).toBe(true);
  expect((await server.end('SIGTERM')).code).toBe(0);
}, 180_000);
