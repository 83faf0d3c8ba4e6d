/** Tests a long mixed load: nothing may fail, and nothing may grow without bound. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Client, type Outcome, openClient, sideBySide } from '../../support/client.ts';
import { findPort, firstAnswer } from '../../support/known-port.ts';
import { percentile } from '../../support/percentile.ts';
import { launchServer, type Process } from '../../support/process.ts';
import { makeStore } from '../../support/store-file.ts';
import { figure, tier } from '../../support/tier.ts';

const seconds = Number(process.env.ENDURANCE_SECONDS ?? tier(6, 30 * 60));

/** Shorter runs only measure a process that is still warming up. */
const comparable = seconds >= 120;

interface Second {
  p99Ms: number;
  walMiB: number;
  memoryMiB: number;
  descriptors: number;
}

const some = (below: number) => Math.floor(Math.random() * below);
const pauseMs = () => 5 + some(15);

function readSome({ get }: Client, animals: number): Promise<Outcome> {
  const cursor = Buffer.from(`after:${1 + some(animals)}`).toString('base64url');
  const limit = [5, 20, 50, 100][some(4)];
  const pages = [`/v1/pets?limit=${limit}&cursor=${cursor}`, `/v1/pets?limit=${limit}&status=available`];
  return get(some(2) ? (pages[some(2)] as string) : `/v1/pets/${1 + some(animals)}`);
}

function measure({ pid }: Process, log: string, timesMs: number[]): Second {
  return {
    p99Ms: percentile(timesMs, 99),
    walMiB: (statSync(log, { throwIfNoEntry: false })?.size ?? 0) / 2 ** 20,
    memoryMiB: Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}

/** Loads the server with readers and writers, and measures it once a second. */
async function runLoad(): Promise<{ course: Second[]; failures: Outcome[]; answers: number; animals: number }> {
  const { file, key, env } = await makeStore();
  const port = await findPort();
  // At level warn, because the test keeps the log in memory.
  const server = launchServer({ env: { ...env, PORT: String(port), LOG_LEVEL: 'warn' } });
  const client = openClient(`http://127.0.0.1:${port}`, key, 16);
  await firstAnswer(server, client);
  await client.add('the first');
  const course: Second[] = [];
  const failures: Outcome[] = [];
  const timesMs: number[] = [];
  let answers = 0;
  let animals = 1;
  let over = false;

  async function ask(index: number): Promise<void> {
    const begun = performance.now();
    const writes = index % 2 === 0;
    const name = `animal-${index}-${answers}`;
    const outcome = writes ? await client.add(name, some(2) ? name : undefined) : await readSome(client, animals);
    timesMs.push(performance.now() - begun);
    answers += 1;
    if (outcome.status !== (writes ? 201 : 200)) failures.push(outcome);
    else if (writes) animals += 1;
  }

  const asking = sideBySide(16, async (index) => {
    for (; !over; await setTimeout(pauseMs())) await ask(index);
  });
  while (course.length < seconds) {
    await setTimeout(1000);
    course.push(measure(server, `${file}-wal`, timesMs.splice(0)));
  }
  over = true;
  await asking;
  return { course, failures, answers, animals };
}

/** Growth that is allowed in addition to 20 %. */
const slack = { p99Ms: 5, memoryMiB: 10, descriptors: 3 };
type Growing = keyof typeof slack;

/** The median in the first and in the last quarter of the time. */
function growthOf(course: Second[], name: Growing): { name: Growing; first: number; last: number } {
  const quarter = Math.ceil(course.length / 4);
  const values = course.map((second) => second[name]);
  return { name, first: percentile(values.slice(0, quarter), 50), last: percentile(values.slice(-quarter), 50) };
}

test(
  'under mixed load the WAL stays small, nothing grows without bound, and no request fails',
  async () => {
    const { course, failures, answers, animals } = await runLoad();
    const walMiB = Math.max(...course.map((second) => second.walMiB));
    const growths = (Object.keys(slack) as Growing[]).map((name) => growthOf(course, name));
    const listed = growths.map(({ name, first, last }) => `${name} ${first.toFixed(1)} → ${last.toFixed(1)}`);
    figure(
      `endurance: ${seconds} s, ${answers} responses, ${animals} pets, ${failures.length} failures, WAL at most ${walMiB.toFixed(1)} MiB; ` +
        `first → last quarter: ${listed.join(', ')}`,
    );
    expect(failures.slice(0, 3)).toEqual([]);
    expect(walMiB).toBeLessThan(64);
    if (!comparable) return;
    for (const { name, first, last } of growths) expect(last, name).toBeLessThan(first * 1.2 + slack[name]);
  },
  (seconds + 60) * 1000,
);
