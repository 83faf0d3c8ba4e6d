/** Tests, from strace's log of a server's system calls, that no 201 is sent before its fsync, and that no power loss loses an acknowledged pet. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { type Promises, sideBySide } from '../../support/client.ts';
import { plant } from '../../support/plant.ts';
import { seededRandom } from '../../support/random.ts';
import { makeStore, missingFrom, serve } from '../../support/store-file.ts';
import { needStrace, tracing } from '../../support/strace.ts';
import { tier } from '../../support/tier.ts';
import { openCrashDisk, type Survival } from './crash-disk.ts';
import { readTrace } from './disk-trace.ts';

const survivals: Survival[] = ['none', 'some', 'all'];

/** Adds pets to a server under strace, `connections` at once, and kills it. `source`: folder of a copy with a planted bug. */
async function traceLoad(animals: number, connections: number, source?: string) {
  const made = await makeStore();
  /** The store's file before the server started. */
  const base = readFileSync(made.file);
  const log = `${temporaryFolder()}/trace`;
  const { folder, server, add, promises } = await serve(made, connections, {
    under: tracing(log),
    ...(source && { source }),
  });
  let next = 0;
  await sideBySide(connections, async () => {
    while (next < animals) {
      const name = `animal-${++next}.`;
      // On a busy machine, strace slows the server down so much that it responds 503.
      while ((await add(name)).status === 503);
      if (!promises.has(name)) throw new Error(`${name} was not added`);
    }
  });
  await server.end('SIGKILL');
  return { folder, base, events: readTrace(log, folder) };
}

/**
 * Simulates power losses. `early`: what only synced data lacks before an fsync ends, or at the end: it was acknowledged before its fsync.
 * `lost` and `corrupt`: what is wrong with `images` disk images, at moments spread evenly over the load, whatever unsynced data survives.
 */
function losses({ folder, base, events }: Awaited<ReturnType<typeof traceLoad>>, images: number, seed = 1) {
  const disk = openCrashDisk(folder, 'store.db', base);
  // In memory if possible, because thousands of images are written and deleted.
  const into = mkdtempSync(`${existsSync('/dev/shm') ? '/dev/shm' : tmpdir()}/power-loss-`);
  onTestFinished(() => rmSync(into, { recursive: true }));
  const random = seededRandom(seed);
  const promises: Promises = new Map();
  const first = events.findIndex(({ kind }) => kind === 'answer');
  const found = { early: [] as string[], lost: [] as string[], corrupt: [] as string[] };
  let image = 0;

  function check(survival: Survival, lost: string[], place: number) {
    disk.restore(into, survival, random);
    const where = `seed ${seed}, image ${image}, after event ${place}, ${survival} of the unsynced data survives`;
    try {
      const missing = missingFrom(`${into}/store.db`, promises);
      if (missing.length > 0) lost.push(`${missing.length} of ${promises.size}: ${where}`);
    } catch (error) {
      found.corrupt.push(`${error}: ${where}`);
    }
  }
  for (const [place, event] of events.entries()) {
    if (event.kind === 'sync') check('none', found.early, place);
    disk.apply(event);
    if (event.kind === 'answer') for (const [name, id] of event.promised) promises.set(name, id);
    const due = ((place + 1 - first) / (events.length - first)) * images;
    for (; image < due; image++) check(survivals[image % survivals.length] as Survival, found.lost, place);
  }
  check('none', found.early, events.length);
  expect(image).toBe(images);
  return { ...found, answered: promises.size };
}

beforeEach(needStrace);

test('each 201 for 600 concurrent POSTs is sent after the fsync that covers its pet', async () => {
  const found = losses(await traceLoad(600, 600), 0);
  expect(found).toEqual({ answered: 600, early: [], lost: [], corrupt: [] });
});

test('a power loss at any moment loses no acknowledged pet and leaves a sound file, whatever unsynced data survives', async () => {
  const load = await traceLoad(tier(2200, 10_000), 16);
  const file = `${load.folder}/store.db`;
  // A checkpoint ends with an ftruncate of the file.
  const checkpoints = load.events.filter((event) => event.kind === 'truncate' && event.file === file).length;
  expect(checkpoints).toBeGreaterThanOrEqual(tier(2, 9));
  const images = tier(1800, 20_000);
  expect(losses(load, images, Math.trunc(Math.random() * 2 ** 32))).toMatchObject({ early: [], lost: [], corrupt: [] });
});

test('with synchronous=NORMAL it answers before the fsync, and images lack pets', async () => {
  const source = plant('src/store/sqlite/connection.ts', 'synchronous = FULL', 'synchronous = NORMAL');
  const { early, lost } = losses(await traceLoad(500, 16, source), 300);
  expect(early.length).toBeGreaterThan(0);
  expect(lost.length).toBeGreaterThan(0);
});
