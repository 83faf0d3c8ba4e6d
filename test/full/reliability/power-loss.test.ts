/** Tests power loss at any moment under load: the disk must still hold every acknowledged pet. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { Promises } from '../../support/client.ts';
import { openCrashDisk, type Survival } from '../../support/crash-disk.ts';
import { plant } from '../../support/plant.ts';
import { seededRandom } from '../../support/random.ts';
import { missingFrom } from '../../support/store-file.ts';
import { needStrace } from '../../support/strace.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';
import { type TracedLoad, traceLoad } from '../../support/traced-load.ts';

const survivals: Survival[] = ['none', 'some', 'all'];

/** A folder in memory if possible, because thousands of images are written and deleted. */
function imageFolder(): string {
  const folder = mkdtempSync(path.join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'power-loss-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** Checks `images` disk images, at moments spread evenly over the load. Returns a line for each one with losses or corruption. */
function losses({ folder, base, events }: TracedLoad, images: number, seed: number) {
  const disk = openCrashDisk(folder, { 'store.db': base });
  const into = imageFolder();
  const random = seededRandom(seed);
  const promises: Promises = new Map();
  const first = events.findIndex(({ kind }) => kind === 'answer');
  const found = { lost: [] as string[], corrupt: [] as string[] };
  let image = 0;
  for (const [place, event] of events.entries()) {
    disk.apply(event);
    if (event.kind === 'answer') for (const [name, id] of event.promised) promises.set(name, id);
    const due = ((place + 1 - first) / (events.length - first)) * images;
    for (; image < due; image++) {
      const survival = survivals[image % survivals.length] as Survival;
      disk.restore(into, survival, random);
      const where = `seed ${seed}, image ${image}, after event ${place}, ${survival} of the unsynced data survives`;
      try {
        const missing = missingFrom(path.join(into, 'store.db'), promises);
        if (missing.length > 0) found.lost.push(`${missing.length} of ${promises.size}: ${where}`);
      } catch (error) {
        found.corrupt.push(`${error}: ${where}`);
      }
    }
  }
  expect(image).toBe(images);
  return found;
}

/** Checks the simulated disk: with all unsynced data, its files must equal the real ones, which the same calls produced. */
function expectFaithful({ folder, base, events }: TracedLoad): void {
  const disk = openCrashDisk(folder, { 'store.db': base });
  for (const event of events) disk.apply(event);
  const into = imageFolder();
  disk.restore(into, 'all', () => 1);
  expect(readdirSync(into)).toEqual(['store.db', 'store.db-wal']);
  for (const name of readdirSync(into))
    expect(readFileSync(path.join(into, name)).equals(readFileSync(path.join(folder, name))), name).toBe(true);
}

/** Counts checkpoints: each one ends with an ftruncate of the file. */
function checkpointsIn({ folder, events }: TracedLoad): number {
  return events.filter((event) => event.kind === 'truncate' && event.file === path.join(folder, 'store.db')).length;
}

beforeEach(needStrace);

test(
  'a power loss at any moment loses no acknowledged pet and leaves a sound file, whatever unsynced data survives',
  async () => {
    const load = await traceLoad({ animals: tier(2200, 10_000), connections: 16 });
    expectFaithful(load);
    const checkpoints = checkpointsIn(load);
    expect(checkpoints).toBeGreaterThanOrEqual(tier(2, 9));
    const images = tier(1800, 20_000);
    const { lost, corrupt } = losses(load, images, Math.trunc(Math.random() * 2 ** 32));
    figure(
      `power loss: ${images} images across ${checkpoints} checkpoints, ${lost.length} lost, ${corrupt.length} corrupt`,
    );
    expect({ lost, corrupt }).toEqual({ lost: [], corrupt: [] });
  },
  patientMs,
);

test.for([
  ['NORMAL', 'lost', 500],
  ['OFF', 'corrupt', 1600],
] as const)(
  'the test detects a server with synchronous=%s: images are %s',
  { timeout: patientMs },
  async ([level, finding, animals]) => {
    const source = plant('src/store/sqlite/connection.ts', 'synchronous = FULL', `synchronous = ${level}`);
    const load = await traceLoad({ animals, connections: 16, source });
    const images = 300;
    const found = losses(load, images, 1)[finding].length;
    figure(`power loss, with planted synchronous=${level}: ${images} images, ${found} ${finding}`);
    expect(found).toBeGreaterThan(0);
  },
);
