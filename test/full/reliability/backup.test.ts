/** Tests online backups, restoring them, and commands that are killed. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { sideBySide } from '../../support/client.ts';
import { namesIn } from '../../support/commands.ts';
import { launchCli } from '../../support/process.ts';
import { seededRandom } from '../../support/random.ts';
import { type MadeStore, makeStore, missingFrom, serve } from '../../support/store-file.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

/** Runs a command on the store; resolves when it has succeeded. */
async function run(made: MadeStore, ...args: string[]): Promise<void> {
  expect(await launchCli(args, made).end()).toMatchObject({ code: 0 });
}

/** Imports pets into a store. */
async function importLines(made: MadeStore, count: number): Promise<void> {
  const lines = Array.from({ length: count }, (_, index) => `{"name":"line ${index + 1}","categoryId":1}\n`);
  const file = path.join(made.folder, `${count}.jsonl`);
  fs.writeFileSync(file, lines.join(''));
  await run(made, 'import', file);
}

/** Starts a server on a store of `animals` pets, whose clients add more until it is killed. */
async function startUnderLoad(animals: number) {
  const made = await makeStore();
  await importLines(made, animals);
  const { server, add, promises } = await serve(made, 8);
  const statuses = new Set<number | 'cut'>();
  let sent = 0;
  const load = sideBySide(8, async () => {
    while (!statuses.has('cut')) statuses.add((await add(`animal-${++sent}`)).status);
  });
  const kill = async () => {
    await server.end('SIGKILL');
    await load;
    // On a busy machine the server may respond 503, but the store itself must never fail.
    expect([...statuses].filter((status) => status !== 201 && status !== 503)).toEqual(['cut']);
    expect(server.stdout()).not.toContain('SQLITE_');
  };
  /** Waits until `more` further pets are acknowledged. */
  const acknowledge = (more: number) => {
    const enough = promises.size + more;
    return vi.waitUntil(() => promises.size >= enough, { timeout: 60_000, interval: 5 });
  };
  return { made, promises, kill, acknowledge };
}

test(
  'a backup under write load is sound, and holds every pet acknowledged before it began',
  async () => {
    const backups = tier(2, 20);
    const { made, promises, kill, acknowledge } = await startUnderLoad(tier(5000, 200_000));
    let acknowledgedMeanwhile = 0;
    for (let count = 1; count <= backups; count++) {
      await acknowledge(100);
      const before = new Map(promises);
      await run(made, 'backup', `${count}.db`);
      acknowledgedMeanwhile += promises.size - before.size;
      expect(missingFrom(path.join(made.folder, `${count}.db`), before)).toEqual([]);
    }
    await kill();
    expect(acknowledgedMeanwhile).toBeGreaterThan(0);
    figure(
      `${backups} online backups under write load (${promises.size} pets acknowledged, ${acknowledgedMeanwhile} of them during a backup): 0 unsound, 0 pets missing`,
    );
  },
  patientMs,
);

test(
  'restore drill (backup under load, kill -9, restore, start): every pet from before the backup is there, and no id is reused',
  async () => {
    const { made, promises, kill, acknowledge } = await startUnderLoad(1000);
    await acknowledge(200);
    const before = new Map(promises);
    await run(made, 'backup', 'last.db');
    await acknowledge(200);
    await kill();

    const begun = performance.now();
    await run(made, 'restore', 'last.db');
    const { server, add } = await serve(made, 1);
    // The server may respond 503 on a busy machine.
    const { json } = await vi.waitUntil(
      async () => {
        const outcome = await add('after the drill');
        return outcome.status === 201 && outcome;
      },
      { timeout: 30_000 },
    );
    const backMs = Math.round(performance.now() - begun);
    expect(json.id).toBeGreaterThan(Math.max(...promises.values()));
    await server.end('SIGTERM');
    expect(missingFrom(made.file, before)).toEqual([]);
    const [kept = ''] = fs.readdirSync(made.folder).filter((name) => name.endsWith('.before-restore'));
    expect(missingFrom(path.join(made.folder, kept), promises)).toEqual([]);
    figure(
      `restore drill: ${before.size} of ${before.size} pets acknowledged before the backup are restored, first 201 after ${backMs} ms; all ${promises.size} are in the replaced store, which was kept`,
    );
  },
  patientMs,
);

test(
  'a killed restore leaves either the old store or the new one, complete',
  async () => {
    const made = await makeStore();
    await importLines(made, 5);
    await run(made, 'backup', 'old.db');
    await importLines(made, 5000);
    await run(made, 'backup', 'new.db');
    const begun = performance.now();
    await run(made, 'restore', 'old.db');
    let longestMs = performance.now() - begun;

    const seed = Date.now() % 1_000_000;
    const random = seededRandom(seed);
    const times = tier(6, 100);
    for (let killed = 0; killed < times; ) {
      const { end } = launchCli(['restore', random() < 0.5 ? 'old.db' : 'new.db'], made);
      await setTimeout(random() * longestMs);
      if ((await end('SIGKILL')).code === null) killed += 1;
      // The command ended before it was killed: it is faster than it was.
      else longestMs *= 0.8;
      expect(missingFrom(made.file, new Map()), `seed ${seed}`).toEqual([]);
      expect([5, 5005], `seed ${seed}`).toContain(namesIn(made.file).length);
    }
    await run(made, 'restore', 'new.db');
    expect(namesIn(made.file)).toHaveLength(5005);
    expect(fs.readdirSync(made.folder).filter((name) => /partial/.test(name))).toEqual([]);
    figure(`${times} restores killed with kill -9 (seed ${seed}): each left the old store or the new one, complete`);
  },
  patientMs,
);
