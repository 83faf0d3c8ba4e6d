/** Tests that creates keep their rate beside a snapshot that stays open, such as that of a dump. */
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { expect, onTestFinished, test } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { dataFolder, initialize, missingPostgres, start } from '../support/postgres.ts';
import { figure } from '../support/tier.ts';

const intervals = 60;
const intervalMs = 10_000;

test('creates beside an open snapshot keep their rate, and the last id does not grow', async ({ skip }) => {
  if (missingPostgres) skip(missingPostgres);
  const data = dataFolder();
  initialize(data, []);
  const server = await start(data);
  const store = await openStore(server.url('postgres'), { now: () => new Date() });
  const sql = postgres(server.url('postgres'), { max: 2 });
  onTestFinished(async () => {
    await Promise.all([sql.end({ timeout: 1 }), store.close()]);
    await server.kill();
    fs.rmSync(data, { recursive: true, force: true });
  });
  const sizeOf = async () => (await sql`SELECT pg_relation_size('pet_id')::integer AS bytes`)[0]?.bytes as number;

  let [added, adding] = [0, true];
  const clients = Array.from({ length: 32 }, async () => {
    for (; adding; added++) await store.pets.add({ name: 'Biscuit', categoryId: 7n, status: 'available' });
  });
  await sleep(intervalMs);
  const before = await sizeOf();
  const snapshot = await sql.reserve();
  await snapshot`BEGIN ISOLATION LEVEL REPEATABLE READ`;
  await snapshot`SELECT count(*) FROM pet`;
  const rates: number[] = [];
  for (let interval = 0; interval < intervals; interval++) {
    const sofar = added;
    await sleep(intervalMs);
    rates.push(((added - sofar) * 1000) / intervalMs);
  }
  adding = false;
  await Promise.all(clients);
  const after = await sizeOf();
  snapshot.release();
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [first, last] = [mean(rates.slice(0, intervals / 6)), mean(rates.slice(-intervals / 6))];
  figure('creates per second beside an open snapshot', { first, last, percent: (100 * last) / first });
  expect(after).toBe(before);
}, 900_000);
