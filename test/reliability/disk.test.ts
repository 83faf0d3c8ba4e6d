/** A disk that fails, by injected system call errors, once or from then on. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { type Outcome, openClient, type Promises, sideBySide } from '../support/client.ts';
import { firstAnswer } from '../support/known-port.ts';
import { startServer } from '../support/process.ts';
import { makeStore, missingFrom } from '../support/store-file.ts';
import { injecting, needStrace } from '../support/strace.ts';
import { figure, patientMs, tier } from '../support/tier.ts';

interface Sent extends Outcome {
  /** Whether it was sent when an addition had already failed. */
  afterFailure: boolean;
}

interface Fault {
  /** System calls, as strace names them. */
  calls: string;
  file: 'store.db' | 'store.db-wal';
  error: string;
  /** Which of the calls is the first to fail. */
  first: number;
  /** Whether all after it fail as well. */
  forGood: boolean;
  /** Whether the server has to end by itself. */
  fatal: boolean;
}

const connections = 24;

/** More additions than a checkpoint waits for, where it is the checkpoint that is to fail. */
const enough = { 'store.db': 1300, 'store.db-wal': 400 };

/** Adds and reads animals on a disk with this fault until there are enough, or the process ends. */
async function suffer(fault: Fault) {
  const { folder, file, key, env } = await makeStore();
  const tampering = `error=${fault.error}:when=${fault.first}${fault.forGood ? '+' : ''}`;
  const server = await startServer({ env, under: injecting(fault.calls, tampering, path.join(folder, fault.file)) });
  const promises: Promises = new Map();
  const client = openClient(server.url, key, connections, promises);
  const { add, get } = client;
  await firstAnswer(server, client);
  const additions: Sent[] = [];
  const reads: Sent[] = [];
  let failedAt: number | undefined;
  let endedAt: number | undefined;
  const ended = server.end().finally(() => {
    endedAt = performance.now();
  });

  async function addNext(): Promise<void> {
    const afterFailure = failedAt !== undefined;
    const outcome = await add(`animal ${additions.length} ${Math.random()}`);
    if (outcome.status !== 201) failedAt ??= performance.now();
    additions.push({ ...outcome, afterFailure });
  }
  async function readNext(): Promise<void> {
    const afterFailure = failedAt !== undefined;
    reads.push({ ...(await get(reads.length % 2 ? '/v1/pets' : '/v1/pets/1')), afterFailure });
  }
  // One that has to end by itself is given some more time for it.
  const most = enough[fault.file] * (fault.fatal ? 10 : 1);
  const isOver = () => endedAt !== undefined || additions.length >= most;

  await addNext();
  await sideBySide(connections, async (index) => {
    while (!isOver()) {
      if (index > 0) await addNext();
      else await readNext();
      if (index === 0 || failedAt !== undefined) await setTimeout(5);
    }
  });
  const { code, stdout } = endedAt === undefined ? await server.end('SIGTERM') : await ended;
  const endedAfterMs = (endedAt ?? 0) - (failedAt ?? 0);
  return { fault, additions, reads, promises, code, stdout, endedAfterMs, file, left: readdirSync(folder) };
}

type Course = Awaited<ReturnType<typeof suffer>>;

const statusesOf = (outcomes: Outcome[]) => new Set(outcomes.map(({ status }) => status));
const afterFailure = (sent: Sent[]) => statusesOf(sent.filter((one) => one.afterFailure));

/** What holds whatever fails: nothing is lost, a failure is 503 in the Error shape, and reads go on for as long as the process does. */
function expectSound({ fault, additions, reads, promises, file }: Course): void {
  expect(missingFrom(file, promises)).toEqual([]);
  for (const { status, json } of additions) {
    if (status === 201 || (fault.fatal && status === 'cut')) continue;
    expect(json).toEqual({ code: 'service_unavailable', message: expect.any(String), status: 503 });
  }
  expect(statusesOf(reads.filter(({ status }) => !(fault.fatal && status === 'cut')))).toEqual(new Set([200]));
}

const ways = [
  { error: 'EIO', forGood: false },
  { error: 'ENOSPC', forGood: true },
  { error: 'EIO', forGood: true },
  { error: 'ENOSPC', forGood: false },
];

/** The ways in which these calls may fail, each on a server of its own. A thousand additions to each checkpoint take their time: two will do. */
async function sufferAll(calls: string, file: Fault['file'], first: number, fatal: boolean): Promise<Course[]> {
  const chosen = file === 'store.db' ? ways.slice(0, tier(2, 4)) : ways;
  const courses = await Promise.all(chosen.map((way) => suffer({ calls, file, first, fatal, ...way })));
  courses.forEach(expectSound);
  const count = (wanted: number) =>
    courses.flatMap(({ additions }) => additions).filter(({ status }) => status === wanted).length;
  const slowest = Math.round(Math.max(...courses.map(({ endedAfterMs }) => endedAfterMs)));
  figure(
    `disk: ${calls} of ${file} fails in ${chosen.length} ways (EIO, ENOSPC; once, for good): ${count(201)} acknowledged, 0 lost, ${count(503)} answered 503` +
      (fatal ? `, exit 1 after ${slowest} ms at most` : ''),
  );
  return courses;
}

beforeEach(needStrace);

test.for([
  ['store.db-wal', 4],
  ['store.db', 1],
] as const)(
  'a failed fsync of %s: 503, nothing is acknowledged after it, and the process ends with 1 within 2 s',
  { timeout: patientMs },
  async ([file, first]) => {
    const courses = await sufferAll('fsync,fdatasync', file, first, true);
    expect(afterFailure(courses.flatMap(({ reads }) => reads))).toContain(200);
    for (const { additions, code, stdout, endedAfterMs } of courses) {
      expect(statusesOf(additions)).toContain(503);
      expect(afterFailure(additions)).not.toContain(201);
      expect(stdout).toContain('SQLITE_IOERR_FSYNC');
      expect(code).toBe(1);
      expect(endedAfterMs).toBeLessThan(2000);
    }
  },
);

test(
  'a failed write of the log, amid a commit: 503 for what it held, reads go on, and so do writes when it can be written',
  async () => {
    for (const { fault, additions, reads, stdout, code } of await sufferAll('pwrite64', 'store.db-wal', 40, false)) {
      expect(afterFailure(additions)).toEqual(new Set([fault.forGood ? 503 : 201]));
      expect(afterFailure(reads)).toEqual(new Set([200]));
      expect(stdout).toContain(fault.error === 'EIO' ? 'SQLITE_IOERR_WRITE' : 'SQLITE_FULL');
      expect(code).toBe(0);
    }
  },
  patientMs,
);

test.for([
  ['pwrite64', 3],
  ['ftruncate', 1],
] as const)(
  'a failed %s of the file, amid a checkpoint: no request fails, the log tells, and the next checkpoint makes up for it',
  { timeout: patientMs },
  async ([calls, first]) => {
    for (const { fault, additions, stdout, code, left } of await sufferAll(calls, 'store.db', first, false)) {
      expect(statusesOf(additions)).toEqual(new Set([201]));
      expect(stdout).toMatch(/"code":"SQLITE_(IOERR|FULL)\w*".*"msg":"a checkpoint failed/);
      // The last checkpoint is that of the end: what it could not move is still in the log.
      expect(left.includes('store.db-wal')).toBe(fault.forGood);
      expect(code).toBe(0);
    }
  },
);
