/** Tests a long mixed load: nothing may fail, and nothing may grow without bound. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Outcome, sideBySide } from '../../support/client.ts';
import { percentile } from '../../support/percentile.ts';
import { makeStore, serve } from '../../support/store-file.ts';
import { figure, tier } from '../../support/tier.ts';

const seconds = Number(process.env.ENDURANCE_SECONDS ?? tier(6, 30 * 60));

/** Growth that is allowed in addition to 20 %. */
const slack = { p99Ms: 5, memoryMiB: 10, descriptors: 3 };
type Growing = keyof typeof slack;
type Second = Record<Growing | 'walMiB', number>;

const some = (below: number) => Math.floor(Math.random() * below);

/** A page or a pet of `animals`. */
function anyPath(animals: number) {
  const cursor = Buffer.from(`after:${1 + some(animals)}`).toString('base64url');
  const limit = [5, 20, 50, 100][some(4)];
  return some(2) ? `/v1/pets?limit=${limit}&cursor=${cursor}` : `/v1/pets/${1 + some(animals)}`;
}

test('under mixed load the WAL stays small, nothing grows without bound, and no request fails', async () => {
  // At level warn, because the test keeps the log in memory.
  const { server, file, add, get } = await serve(await makeStore(), 16, { env: { LOG_LEVEL: 'warn' } });
  await add('the first');
  const course: Second[] = [];
  const failures: Outcome[] = [];
  let timesMs: number[] = [];
  let [answers, animals, over] = [0, 1, false];

  const asking = sideBySide(16, async (index) => {
    const writes = index % 2 === 0;
    for (; !over; await setTimeout(5 + some(15))) {
      const begun = performance.now();
      const name = `animal-${index}-${answers++}`;
      const outcome = await (writes ? add(name, some(2) ? name : undefined) : get(anyPath(animals)));
      timesMs.push(performance.now() - begun);
      if (outcome.status !== (writes ? 201 : 200)) failures.push(outcome);
      else if (writes) animals += 1;
    }
  });
  while (course.length < seconds) {
    await setTimeout(1000);
    course.push({
      p99Ms: percentile(timesMs, 99),
      walMiB: (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) / 2 ** 20,
      memoryMiB: Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1024,
      descriptors: readdirSync(`/proc/${server.pid}/fd`).length,
    });
    timesMs = [];
  }
  over = true;
  await asking;

  const walMiB = Math.max(...course.map((second) => second.walMiB));
  /** The median in the first and in the last quarter of the time. */
  const growths = (Object.keys(slack) as Growing[]).map((name) => {
    const [quarter, values] = [Math.ceil(course.length / 4), course.map((second) => second[name])];
    return { name, first: percentile(values.slice(0, quarter), 50), last: percentile(values.slice(-quarter), 50) };
  });
  for (const { name, first, last } of growths) figure(name, { first, last });
  expect(failures.slice(0, 3)).toEqual([]);
  expect(walMiB).toBeLessThan(64);
  // Shorter runs only measure a process that is still warming up.
  if (seconds < 120) return;
  for (const { name, first, last } of growths) expect(last, name).toBeLessThan(first * 1.2 + slack[name]);
});
