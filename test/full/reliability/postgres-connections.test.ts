/** Tests that the connections to PostgreSQL stay bounded while statements hang, under 64 clients. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { missingPostgres, type Server, startPair } from '../../support/postgres.ts';
import { notCounted, type Pressure, press } from '../../support/postgres-pressure.ts';
import { startServer } from '../../support/process.ts';
import { figure, tier } from '../../support/tier.ts';

const faultMs = tier(8000, 60_000);
const settings = { connections: 10, slack: 2 };
/** What a request may take, with the time that a busy machine adds. */
const answerMs = 5000;
const recoveryMs = 5000;

beforeEach(({ skip }) => {
  if (missingPostgres) skip(missingPostgres);
});

async function startUnderPressure(primary: Server): Promise<{ pressure: Pressure; databaseUrl: string }> {
  const name = `animals_${randomBytes(4).toString('hex')}`;
  const sql = postgres(primary.url('postgres'), { max: 1 });
  await sql.unsafe(`CREATE DATABASE ${name}`);
  await sql.end();
  const databaseUrl = primary.url(name);
  const server = await startServer({ env: { DATABASE_URL: databaseUrl } });
  const pressure = await press(server, await server.firstKey(), primary.url('postgres'), name);
  onTestFinished(() => pressure.stop());
  await expect.poll(() => pressure.answers().length, { timeout: 10_000 }).toBeGreaterThan(200);
  return { pressure, databaseUrl };
}

/** Checks the time of the fault, and that reads and writes succeed again within 5 s of its end. */
async function expectBounded(what: string, pressure: Pressure, begun: number, ended: number): Promise<void> {
  const again = (method: string) =>
    pressure.answers().find((answer) => answer.method === method && answer.status < 300 && answer.begun > ended);
  await expect.poll(() => again('GET') && again('POST'), { timeout: 20_000, interval: 20 }).toBeDefined();
  const recoveredMs = Math.max(again('GET')?.ended ?? 0, again('POST')?.ended ?? 0) - ended;
  const meanwhile = pressure.answers().filter((answer) => answer.ended > begun && answer.ended < ended);
  // There may be more answers than a call can have arguments.
  const slowestMs = pressure.answers().reduce((slowest, { begun, ended }) => Math.max(slowest, ended - begun), 0);
  const most = Math.max(...pressure.backends());
  figure(
    `${what} for ${faultMs / 1000} s: at most ${most} backends, ${meanwhile.length} answers meanwhile (${meanwhile.filter(({ status }) => status === 200).length} × 200, ${meanwhile.filter(({ status }) => status === 503).length} × 503), the slowest after ${Math.round(slowestMs)} ms; normal again after ${Math.round(recoveredMs)} ms`,
  );
  expect(most).toBeLessThanOrEqual(settings.connections + settings.slack);
  expect(new Set(pressure.answers().map(({ status }) => status))).toEqual(new Set([200, 201, 503]));
  expect(slowestMs).toBeLessThan(answerMs);
  expect(recoveredMs).toBeLessThan(recoveryMs);
}

test('a table that somebody locks', async () => {
  const { primary, end } = await startPair();
  onTestFinished(end);
  const { pressure, databaseUrl } = await startUnderPressure(primary);
  const sql = postgres(databaseUrl, { max: 1, connection: { application_name: notCounted } });
  const other = await sql.reserve();
  await other`BEGIN`;
  await other`LOCK TABLE pet IN ACCESS EXCLUSIVE MODE`;
  const begun = performance.now();
  await sleep(faultMs);
  await other`ROLLBACK`;
  const ended = performance.now();
  other.release();
  await sql.end();
  await expectBounded('a locked table', pressure, begun, ended);
}, 180_000);

test('a synchronous standby that stops: reads go on', async () => {
  const { primary, standby, end } = await startPair();
  onTestFinished(end);
  const { pressure } = await startUnderPressure(primary);
  standby.freeze();
  const begun = performance.now();
  await sleep(faultMs);
  const ended = performance.now();
  standby.thaw();
  const reads = pressure.answers().filter((answer) => answer.method === 'GET' && answer.begun > begun + 500);
  expect(new Set(reads.map(({ status }) => status))).toEqual(new Set([200]));
  await expectBounded('a stopped synchronous standby', pressure, begun, ended);
}, 180_000);
