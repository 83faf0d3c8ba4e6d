/** A disk that takes a second for each fsync. */
import path from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { type Outcome, openClient, sideBySide } from '../support/client.ts';
import { percentile } from '../support/percentile.ts';
import { startServer } from '../support/process.ts';
import { makeStore } from '../support/store-file.ts';
import { injecting, needStrace } from '../support/strace.ts';
import { figure, tier } from '../support/tier.ts';

const durationMs = tier(4000, 30_000);

beforeEach(needStrace);

test('reads do not wait for a disk that takes a second for each fsync, which every addition does wait for', async () => {
  const { folder, file, key, env } = await makeStore();
  const slow = injecting('fsync,fdatasync', 'delay_exit=1s', folder, file, path.join(folder, 'store.db-wal'));
  const server = await startServer({ env, under: slow });
  const { add } = openClient(server.url, key, 20);
  const { get } = openClient(server.url, key, 2);

  const additionsMs: number[] = [];
  const readsMs: number[] = [];
  const outcomes: Outcome[] = [];
  const end = performance.now() + durationMs;
  async function timed(times: number[], request: Promise<Outcome>): Promise<void> {
    const begun = performance.now();
    outcomes.push(await request);
    times.push(performance.now() - begun);
  }
  await Promise.all([
    sideBySide(20, async (index) => {
      while (performance.now() < end) await timed(additionsMs, add(`animal ${index} ${additionsMs.length}`));
    }),
    sideBySide(2, async (index) => {
      while (performance.now() < end)
        await timed(readsMs, get(index ? '/v1/pets?status=available' : '/v1/pets?limit=100'));
    }),
  ]);

  expect(outcomes.filter(({ status }) => status !== 200 && status !== 201)).toEqual([]);
  const p99 = percentile(readsMs, 99);
  figure(
    `slow disk: ${readsMs.length} GETs while each fsync takes 1 s, p99 ${p99.toFixed(1)} ms; ` +
      `${additionsMs.length} POSTs, the quickest after ${Math.round(Math.min(...additionsMs))} ms`,
  );
  expect(readsMs.length).toBeGreaterThan(300);
  expect(Math.min(...additionsMs)).toBeGreaterThan(900);
  expect(p99).toBeLessThan(50);
});
