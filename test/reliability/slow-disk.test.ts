/** A disk that takes a second for each fsync. */
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { type Outcome, openClient, sideBySide } from '../support/client.ts';
import { percentile } from '../support/percentile.ts';
import { startServer } from '../support/process.ts';
import { type MadeStore, makeStore } from '../support/store-file.ts';
import { injecting, needStrace } from '../support/strace.ts';
import { figure, patientMs, tier } from '../support/tier.ts';
import { undisturbed } from '../support/undisturbed.ts';

const durationMs = tier(4000, 30_000);

/** So that reads do not take up the processors that they are timed on. */
const pauseMs = 2;

beforeEach(needStrace);

interface Course {
  additionsMs: number[];
  readsMs: number[];
  outcomes: Outcome[];
}

/** Adds and reads side by side, for as long as a second is waited for each fsync of the store. */
async function addAndRead({ folder, file, key, env }: MadeStore): Promise<Course> {
  const slow = injecting('fsync,fdatasync', 'delay_exit=1s', folder, file, path.join(folder, 'store.db-wal'));
  const server = await startServer({ env, under: slow });
  const { add } = openClient(server.url, key, 20);
  const { get } = openClient(server.url, key, 2);
  const course: Course = { additionsMs: [], readsMs: [], outcomes: [] };
  const end = performance.now() + durationMs;

  async function timed(timesMs: number[], request: Promise<Outcome>): Promise<void> {
    const begun = performance.now();
    course.outcomes.push(await request);
    timesMs.push(performance.now() - begun);
  }
  const adding = sideBySide(20, async (index) => {
    while (performance.now() < end)
      await timed(course.additionsMs, add(`animal ${index} ${course.additionsMs.length}`));
  });
  const reading = sideBySide(2, async (index) => {
    for (; performance.now() < end; await setTimeout(pauseMs))
      await timed(course.readsMs, get(index === 0 ? '/v1/pets?limit=100' : '/v1/pets?status=available'));
  });
  await Promise.all([adding, reading]);
  return course;
}

test(
  'reads do not wait for a disk that takes a second for each fsync, which every addition does wait for',
  async () => {
    const store = await makeStore();
    const { additionsMs, readsMs, outcomes } = await undisturbed(() => addAndRead(store));
    const p99 = percentile(readsMs, 99);
    const quickest = Math.min(...additionsMs);
    figure(
      `slow disk, 1 s an fsync: ${readsMs.length} GETs beside 20 POSTs at once, p99 ${p99.toFixed(1)} ms; ` +
        `${additionsMs.length} POSTs, the quickest after ${Math.round(quickest)} ms`,
    );
    expect(outcomes.filter(({ status }) => status !== 200 && status !== 201)).toEqual([]);
    expect(readsMs.length).toBeGreaterThan(300);
    expect(quickest).toBeGreaterThan(900);
    expect(p99).toBeLessThan(50);
  },
  patientMs,
);
