/** Tests a failing disk: strace injects errors into system calls, once or permanently. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { type Outcome, openClient, type Promises, sideBySide } from '../../support/client.ts';
import { firstAnswer } from '../../support/known-port.ts';
import { startServer } from '../../support/process.ts';
import { makeStore, missingFrom } from '../../support/store-file.ts';
import { injecting, needStrace } from '../../support/strace.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

interface Sent extends Outcome {
  /** Whether a POST had already failed when this request was sent. */
  afterFailure: boolean;
}

interface Fault {
  /** System calls, as strace names them. */
  calls: string;
  file: 'store.db' | 'store.db-wal';
  error: string;
  /** The number of the first call that fails. */
  first: number;
  /** Whether all later calls fail, too. */
  permanent: boolean;
  /** Whether the server must exit. */
  fatal: boolean;
}

const connections = 24;

/** Number of POSTs. For faults in a checkpoint, enough to start one. */
const enough = { 'store.db': 1300, 'store.db-wal': 400 };

/** Adds and reads pets on a disk with this fault, until there are enough or the process exits. */
async function runWithFault(fault: Fault) {
  const { folder, file, key, env } = await makeStore();
  const tampering = `error=${fault.error}:when=${fault.first}${fault.permanent ? '+' : ''}`;
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
  // A server that must exit gets more time for it.
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

type Run = Awaited<ReturnType<typeof runWithFault>>;

const statusesOf = (outcomes: Outcome[]) => new Set(outcomes.map(({ status }) => status));
const afterFailure = (sent: Sent[]) => statusesOf(sent.filter((one) => one.afterFailure));

/** Checks what holds for every fault: nothing is lost, a failed POST gets a 503 with an Error body, and reads succeed while the process lives. */
function expectSound({ fault, additions, reads, promises, file }: Run): void {
  expect(missingFrom(file, promises)).toEqual([]);
  for (const { status, json } of additions) {
    if (status === 201 || (fault.fatal && status === 'cut')) continue;
    expect(json).toEqual({ code: 'service_unavailable', message: expect.any(String), status: 503 });
  }
  expect(statusesOf(reads.filter(({ status }) => !(fault.fatal && status === 'cut')))).toEqual(new Set([200]));
}

const ways = [
  { error: 'EIO', permanent: false },
  { error: 'ENOSPC', permanent: true },
  { error: 'EIO', permanent: true },
  { error: 'ENOSPC', permanent: false },
];

/** Injects each kind of fault into a separate server. The quick tier tests only two kinds in checkpoints, which need 1,000 POSTs each. */
async function runAllWays(calls: string, file: Fault['file'], first: number, fatal: boolean): Promise<Run[]> {
  const chosen = file === 'store.db' ? ways.slice(0, tier(2, 4)) : ways;
  const runs = await Promise.all(chosen.map((way) => runWithFault({ calls, file, first, fatal, ...way })));
  runs.forEach(expectSound);
  const count = (wanted: number) =>
    runs.flatMap(({ additions }) => additions).filter(({ status }) => status === wanted).length;
  const slowest = Math.round(Math.max(...runs.map(({ endedAfterMs }) => endedAfterMs)));
  figure(
    `disk: ${calls} of ${file} fails in ${chosen.length} ways (EIO, ENOSPC; once, permanently): ${count(201)} acknowledged, 0 lost, ${count(503)} responses 503` +
      (fatal ? `, exit 1 after ${slowest} ms at most` : ''),
  );
  return runs;
}

beforeEach(needStrace);

test.for([
  ['store.db-wal', 4],
  ['store.db', 1],
] as const)(
  'a failed fsync of %s: 503, no later write is acknowledged, and the process exits with 1',
  { timeout: patientMs },
  async ([file, first]) => {
    const runs = await runAllWays('fsync,fdatasync', file, first, true);
    expect(afterFailure(runs.flatMap(({ reads }) => reads))).toContain(200);
    for (const { additions, code, stdout } of runs) {
      expect(statusesOf(additions)).toContain(503);
      expect(afterFailure(additions)).not.toContain(201);
      expect(stdout).toContain('SQLITE_IOERR_FSYNC');
      expect(code).toBe(1);
    }
  },
);

test(
  'a failed write to the WAL during a commit: 503 for its POSTs, reads continue, and writes resume when the WAL is writable',
  async () => {
    for (const { fault, additions, reads, stdout, code } of await runAllWays('pwrite64', 'store.db-wal', 40, false)) {
      expect(afterFailure(additions)).toEqual(new Set([fault.permanent ? 503 : 201]));
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
  'a failed %s of the file during a checkpoint: no request fails, the log reports it, and the next checkpoint completes the work',
  { timeout: patientMs },
  async ([calls, first]) => {
    for (const { fault, additions, stdout, code, left } of await runAllWays(calls, 'store.db', first, false)) {
      expect(statusesOf(additions)).toEqual(new Set([201]));
      expect(stdout).toMatch(/"code":"SQLITE_(IOERR|FULL)\w*".*"msg":"a checkpoint failed/);
      // The last checkpoint runs at the exit: data that it could not move stays in the WAL.
      expect(left.includes('store.db-wal')).toBe(fault.permanent);
      expect(code).toBe(0);
    }
  },
);
