/** Tests online backups under load, and a restore that is killed. */
import fs from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { sideBySide } from '../../support/client.ts';
import { jsonLines, namesIn } from '../../support/commands.ts';
import { launchCli } from '../../support/process.ts';
import { seededRandom } from '../../support/random.ts';
import { type MadeStore, makeStore, missingFrom, serve } from '../../support/store-file.ts';
import { tier } from '../../support/tier.ts';

/** Runs a command on the store; resolves when it has succeeded. */
async function run(made: MadeStore, ...args: string[]) {
  expect(await launchCli(args, made).end()).toMatchObject({ code: 0 });
}

/** Imports pets into a store. */
async function importLines(made: MadeStore, count: number) {
  const file = `${made.folder}/${count}.jsonl`;
  fs.writeFileSync(file, jsonLines(count));
  await run(made, 'import', file);
}

test('a backup under write load is sound, and holds every pet acknowledged before it began', async () => {
  const made = await makeStore();
  await importLines(made, tier(5000, 200_000));
  const { server, add, promises } = await serve(made, 8);
  const statuses = new Set<number | 'cut'>();
  let [sent, acknowledgedMeanwhile] = [0, 0];
  const load = sideBySide(8, async () => {
    while (!statuses.has('cut')) statuses.add((await add(`animal-${++sent}`)).status);
  });
  const backups = tier(2, 20);
  for (let count = 1; count <= backups; count++) {
    const enough = promises.size + 100;
    await vi.waitUntil(() => promises.size >= enough, { timeout: 60_000, interval: 5 });
    const before = new Map(promises);
    await run(made, 'backup', `${count}.db`);
    acknowledgedMeanwhile += promises.size - before.size;
    expect(missingFrom(`${made.folder}/${count}.db`, before)).toEqual([]);
  }
  await server.end('SIGKILL');
  await load;
  // On a busy machine the server may respond 503, but the store itself must never fail.
  expect([...statuses].filter((status) => status !== 201 && status !== 503)).toEqual(['cut']);
  expect(server.stdout()).not.toContain('SQLITE_');
  expect(acknowledgedMeanwhile).toBeGreaterThan(0);
});

test('a killed restore leaves either the old store or the new one, complete', async () => {
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
});
