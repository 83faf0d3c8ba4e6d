/** Tests that creates keep their rate beside a snapshot that stays open, such as that of a dump. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startOwn } from '../support/own-postgres.ts';
import { missingPostgres } from '../support/postgres.ts';
import { clientOf, open } from '../support/store.ts';
import { figure } from '../support/tier.ts';

const minuteMs = 60_000;

test('creates beside an open snapshot keep their rate for ten minutes', async ({ skip }) => {
  if (missingPostgres) skip(missingPostgres);
  const url = (await startOwn(['fsync = on'])).url('postgres');
  const store = await open(url);
  const sql = clientOf(url);
  const sizeOf = async () => (await sql`SELECT pg_relation_size('pet_id')::integer AS bytes`)[0]?.bytes as number;

  let [added, adding] = [0, true];
  const clients = Array.from({ length: 32 }, async () => {
    for (; adding; added++) await store.pets.add({ name: 'Biscuit', categoryId: 7n, status: 'available' });
  });
  /** Creates in a minute. */
  async function rate(): Promise<number> {
    const before = added;
    await sleep(minuteMs);
    return added - before;
  }
  await sleep(10_000);
  const before = await sizeOf();
  const [first, last] = await clientOf(url).begin('ISOLATION LEVEL REPEATABLE READ', async (snapshot) => {
    await snapshot`SELECT count(*) FROM pet`;
    const atFirst = await rate();
    await sleep(8 * minuteMs);
    return [atFirst, await rate()];
  });
  adding = false;
  await Promise.all(clients);
  figure('creates per minute beside an open snapshot', { first, last, percent: (100 * last) / first });
  expect(await sizeOf()).toBe(before);
}, 900_000);
