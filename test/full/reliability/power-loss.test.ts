/** Tests, from strace's log of a server's system calls, that no 201 is sent before its fsync, and that no power loss loses an acknowledged pet. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { type Promises, sideBySide } from '../../support/client.ts';
import { openCrashDisk, type Survival } from '../../support/crash-disk.ts';
import { type DiskEvent, readTrace } from '../../support/disk-trace.ts';
import { plant } from '../../support/plant.ts';
import { seededRandom } from '../../support/random.ts';
import { makeStore, missingFrom, serve } from '../../support/store-file.ts';
import { needStrace, tracing } from '../../support/strace.ts';
import { figure, tier } from '../../support/tier.ts';

const survivals: Survival[] = ['none', 'some', 'all'];

interface TracedLoad {
  folder: string;
  /** The store's file before the server started. */
  base: Buffer;
  events: DiskEvent[];
}

/** Adds pets to a server under strace, `connections` at once, and kills it. `source`: folder of a copy with a planted bug. */
async function traceLoad(animals: number, connections: number, source?: string): Promise<TracedLoad> {
  const made = await makeStore();
  const base = readFileSync(made.file);
  const log = path.join(temporaryFolder(), 'trace');
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

type Write = Extract<DiskEvent, { kind: 'write' }>;

// https://sqlite.org/fileformat2.html#walformat. SQLite writes a frame's header and its page one after the other.
const frameHeaderBytes = 24;

/** Name of each pet → the line of the trace where its commit was completely written. */
function commitsOf(writes: Write[]): Map<string, number> {
  const commits = new Map<string, number>();
  let pending: string[] = [];
  let isLastPage = false;
  for (const { bytes, done } of writes) {
    if (bytes.length === frameHeaderBytes) {
      // Only the last frame of a commit holds the size of the database.
      isLastPage = bytes.readUInt32BE(4) > 0;
      continue;
    }
    pending.push(...(bytes.toString('latin1').match(/animal-\d+\./g) ?? []));
    if (!isLastPage) continue;
    for (const name of pending) if (!commits.has(name)) commits.set(name, done);
    pending = [];
    isLastPage = false;
  }
  return commits;
}

/** Names of pets acknowledged too early: before the end of an fsync of the WAL that began after their commit was written. */
function tooEarly({ folder, events }: TracedLoad): { answered: number; commits: number; early: string[] } {
  const wal = `${folder}/store.db-wal`;
  const commits = commitsOf(events.filter((event): event is Write => event.kind === 'write' && event.file === wal));
  const syncs = events.filter((event) => event.kind === 'sync' && event.file === wal);
  const answers = events.flatMap((event) => {
    return event.kind === 'answer' ? event.promised.map(([name]) => ({ name, sent: event.begun })) : [];
  });
  const early = answers.filter(({ name, sent }) => {
    const written = commits.get(name) ?? Number.POSITIVE_INFINITY;
    return !syncs.some(({ begun, done }) => begun > written && done < sent);
  });
  return {
    answered: answers.length,
    commits: new Set(commits.values()).size,
    early: early.map(({ name }) => name),
  };
}

/** Checks `images` disk images, at moments spread evenly over the load. Returns a line for each one with losses or corruption. */
function losses({ folder, base, events }: TracedLoad, images: number, seed: number) {
  const disk = openCrashDisk(folder, 'store.db', base);
  // In memory if possible, because thousands of images are written and deleted.
  const into = mkdtempSync(path.join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'power-loss-'));
  onTestFinished(() => rmSync(into, { recursive: true }));
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

beforeEach(needStrace);

test('each 201 for 600 concurrent POSTs is sent after the fsync that covers its pet', async () => {
  const { answered, commits, early } = tooEarly(await traceLoad(600, 600));
  figure('fsync', { answered, commits, early: early.length });
  expect(answered).toBe(600);
  expect(early).toEqual([]);
});

test('a power loss at any moment loses no acknowledged pet and leaves a sound file, whatever unsynced data survives', async () => {
  const load = await traceLoad(tier(2200, 10_000), 16);
  // A checkpoint ends with an ftruncate of the file.
  const checkpoints = load.events.filter(({ kind, ...event }) => {
    return kind === 'truncate' && 'file' in event && event.file === path.join(load.folder, 'store.db');
  }).length;
  expect(checkpoints).toBeGreaterThanOrEqual(tier(2, 9));
  const images = tier(1800, 20_000);
  const { lost, corrupt } = losses(load, images, Math.trunc(Math.random() * 2 ** 32));
  figure('power loss', { images, checkpoints, lost: lost.length, corrupt: corrupt.length });
  expect({ lost, corrupt }).toEqual({ lost: [], corrupt: [] });
});

test.for([
  ['NORMAL', 'lost', 500],
  ['OFF', 'corrupt', 1600],
] as const)(
  'the tests detect a server with synchronous=%s: it answers before the fsync, and images are %s',
  async ([level, finding, animals]) => {
    const source = plant('src/store/sqlite/connection.ts', 'synchronous = FULL', `synchronous = ${level}`);
    const load = await traceLoad(animals, 16, source);
    const early = tooEarly(load).early.length;
    const found = losses(load, 300, 1)[finding].length;
    figure(`with planted synchronous=${level}`, { early, [finding]: found });
    expect(early).toBeGreaterThan(0);
    expect(found).toBeGreaterThan(0);
  },
);
