/** Tests a disk that takes one second for each fsync. */
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { type Outcome, openClient, sideBySide } from '../../support/client.ts';
import { percentile } from '../../support/percentile.ts';
import { startServer } from '../../support/process.ts';
import { type MadeStore, makeStore } from '../../support/store-file.ts';
import { injecting, needStrace } from '../../support/strace.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

const durationMs = tier(4000, 30_000);

/** Pause between reads, so that they do not use all the CPU time that they are measured with. */
const pauseMs = 2;

beforeEach(needStrace);

interface Measurements {
  additionsMs: number[];
  readsMs: number[];
  outcomes: Outcome[];
}

/** Adds and reads concurrently for `durationMs`, while each fsync of the store takes one second. */
async function addAndRead({ folder, file, key, env }: MadeStore): Promise<Measurements> {
  const slow = injecting('fsync,fdatasync', 'delay_exit=1s', folder, file, path.join(folder, 'store.db-wal'));
  const server = await startServer({ env, under: slow });
  const { add } = openClient(server.url, key, 20);
  const { get } = openClient(server.url, key, 2);
  const measured: Measurements = { additionsMs: [], readsMs: [], outcomes: [] };
  const end = performance.now() + durationMs;

  async function timed(timesMs: number[], request: Promise<Outcome>): Promise<void> {
    const begun = performance.now();
    measured.outcomes.push(await request);
    timesMs.push(performance.now() - begun);
  }
  const adding = sideBySide(20, async (index) => {
    while (performance.now() < end)
      await timed(measured.additionsMs, add(`animal ${index} ${measured.additionsMs.length}`));
  });
  const reading = sideBySide(2, async (index) => {
    for (; performance.now() < end; await setTimeout(pauseMs))
      await timed(measured.readsMs, get(index === 0 ? '/v1/pets?limit=100' : '/v1/pets?status=available'));
  });
  await Promise.all([adding, reading]);
  return measured;
}

test(
  'with one second per fsync, reads do not wait for the disk, and every POST does',
  async () => {
    const store = await makeStore();
    const { additionsMs, readsMs, outcomes } = await addAndRead(store);
    const p99 = percentile(readsMs, 99);
    const quickest = Math.min(...additionsMs);
    figure(
      `slow disk, 1 s per fsync: ${readsMs.length} GETs beside 20 concurrent POSTs, p99 ${p99.toFixed(1)} ms; ` +
        `${additionsMs.length} POSTs, the fastest after ${Math.round(quickest)} ms`,
    );
    expect(outcomes.filter(({ status }) => status !== 200 && status !== 201)).toEqual([]);
    expect(readsMs.length).toBeGreaterThan(300);
    expect(quickest).toBeGreaterThan(900);
    expect(p99).toBeLessThan(quickest);
  },
  patientMs,
);
