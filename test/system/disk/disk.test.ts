/** Tests a disk that fails, is full or is slow: strace tampers with system calls, and a small tmpfs fills up. */
import { readdirSync, statfsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, type TestContext, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { type Outcome, sideBySide } from '../../support/client.ts';
import { percentile } from '../../support/percentile.ts';
import { launchServer } from '../../support/process.ts';
import { mountSmallDisk } from '../../support/small-disk.ts';
import { makeStore, missingFrom, serve } from '../../support/store-file.ts';
import { injecting, needStrace } from '../../support/strace.ts';
import { tier } from '../../support/tier.ts';

interface Fault {
  /** System calls, as strace names them. */
  calls: string;
  file: 'store.db' | 'store.db-wal';
  /** The number of the first call that fails. */
  first: number;
  /** Whether the server must exit. */
  fatal?: boolean;
}

const connections = 24;

/** Number of POSTs. For faults in a checkpoint, enough to start one. */
const enough = { 'store.db': 1320, 'store.db-wal': 400 };

const unavailable = { code: 'service_unavailable', message: expect.any(String), status: 503 };

/** Adds and reads pets on a disk with this fault, until there are enough or the process exits, and checks what holds for every fault. */
async function runWithFault({ calls, file: name, first, fatal = false }: Fault, error: string, permanent: boolean) {
  const made = await makeStore();
  const tampering = `error=${error}:when=${first}${permanent ? '+' : ''}`;
  const under = injecting(calls, tampering, `${made.folder}/${name}`);
  const { server, add, get, promises, file, folder } = await serve(made, connections, { under });
  /** The statuses, and those of requests that were sent after a POST had failed. */
  const added = { all: new Set<Outcome['status']>(), later: new Set<Outcome['status']>() };
  const read = { all: new Set<Outcome['status']>(), later: new Set<Outcome['status']>() };
  let sent = 0;
  let [failed, ended] = [false, false];
  const ending = server.end().finally(() => {
    ended = true;
  });

  async function ask(request: Promise<Outcome>, { all, later }: typeof added) {
    const isLater = failed;
    const { status, json } = await request;
    all.add(status);
    if (isLater) later.add(status);
    if (status === 503) expect(json).toEqual(unavailable);
    if (all === added.all && status !== 201) failed = true;
  }
  // A server that must exit gets more time for it.
  const most = enough[name] * (fatal ? 10 : 1);
  await ask(add('the first'), added);
  await sideBySide(connections, async (index) => {
    while (!ended && sent < most) {
      await (index > 0
        ? ask(add(`animal ${++sent} ${Math.random()}`), added)
        : ask(get(sent % 2 ? '/v1/pets' : '/v1/pets/1'), read));
      if (index === 0 || failed) await sleep(5);
    }
  });
  const { code, stdout } = await (ended ? ending : server.end('SIGTERM'));
  // Before missingFrom, which makes a WAL when it opens the file.
  const left = readdirSync(folder);

  expect(missingFrom(file, promises)).toEqual([]);
  const cut = fatal ? ['cut'] : [];
  expect([201, 503, ...cut]).toEqual(expect.arrayContaining([...added.all]));
  expect([200, ...cut]).toEqual(expect.arrayContaining([...read.all]));
  return { error, permanent, added, read, code, stdout, left };
}

type Run = Awaited<ReturnType<typeof runWithFault>>;

const ways: [error: string, permanent: boolean][] = [
  ['EIO', false],
  ['ENOSPC', true],
  ['EIO', true],
  ['ENOSPC', false],
];

function expectExit({ added, code, stdout }: Run) {
  expect([...added.all]).toContain(503);
  expect([...added.later]).not.toContain(201);
  expect(stdout).toContain('SQLITE_IOERR_FSYNC');
  expect(code).toBe(1);
}

function expectFailedWrites({ error, permanent, added, read, stdout, code }: Run) {
  expect([...added.later]).toEqual([permanent ? 503 : 201]);
  expect([...read.later]).toEqual([200]);
  expect(stdout).toContain(error === 'EIO' ? 'SQLITE_IOERR_WRITE' : 'SQLITE_FULL');
  expect(code).toBe(0);
}

function expectFailedCheckpoint({ permanent, added, stdout, code, left }: Run) {
  expect([...added.all]).toEqual([201]);
  expect(stdout).toMatch(/"code":"SQLITE_(IOERR|FULL)\w*".*"msg":"a checkpoint failed/);
  // The last checkpoint runs at the exit: data that it could not move stays in the WAL.
  expect(left.includes('store.db-wal')).toBe(permanent);
  expect(code).toBe(0);
}

const noFailure = 'no request fails, the log reports it, and the next checkpoint completes the work';

test.for<[what: string, fault: Fault, expectOutcome: (run: Run) => void]>([
  [
    'a failed fsync of store.db-wal: 503, no later write is acknowledged, and the process exits with 1',
    { calls: 'fsync,fdatasync', file: 'store.db-wal', first: 4, fatal: true },
    expectExit,
  ],
  [
    'a failed fsync of store.db: 503, no later write is acknowledged, and the process exits with 1',
    { calls: 'fsync,fdatasync', file: 'store.db', first: 1, fatal: true },
    expectExit,
  ],
  [
    'a failed write to the WAL during a commit: 503 for its POSTs, reads continue, and writes resume when the WAL is writable',
    { calls: 'pwrite64', file: 'store.db-wal', first: 40 },
    expectFailedWrites,
  ],
  [
    `a failed write of the file during a checkpoint: ${noFailure}`,
    { calls: 'pwrite64', file: 'store.db', first: 3 },
    expectFailedCheckpoint,
  ],
  [
    `a failed truncation of the file during a checkpoint: ${noFailure}`,
    { calls: 'ftruncate', file: 'store.db', first: 1 },
    expectFailedCheckpoint,
  ],
])('%s', async ([, fault, expectOutcome], context) => {
  needStrace(context);
  // The quick tier tests only two ways in checkpoints, which need 1,000 POSTs each.
  const chosen = fault.file === 'store.db' ? ways.slice(0, tier(2, 4)) : ways;
  const runs = await Promise.all(chosen.map((way) => runWithFault(fault, ...way)));
  runs.forEach(expectOutcome);
  if (fault.fatal) expect(runs.flatMap(({ read }) => [...read.later])).toContain(200);
});

/** A store on a disk of this size. */
async function makeOnSmallDisk(context: TestContext, kibibytes = 8 * 1024) {
  const disk = mountSmallDisk(context, `${temporaryFolder()}/disk`, kibibytes);
  return { disk, made: await makeStore(disk.folder) };
}

test('a full disk: writes get 503, reads continue, and writes resume when there is room', async (context) => {
  const { disk, made } = await makeOnSmallDisk(context);
  const { server, add, get, promises, file } = await serve(made, 20);
  const outcomes: Outcome[] = [];

  /** Adds pets, `atOnce` at a time, until `isEnough` accepts a response. */
  async function addUntil(isEnough: (last: Outcome) => boolean, atOnce = 20) {
    let over = false;
    await sideBySide(atOnce, async () => {
      while (!over) {
        const last = await add(`animal ${outcomes.length} ${Math.random()}`);
        outcomes.push(last);
        over ||= isEnough(last) || outcomes.length > 20_000;
      }
    });
  }

  for (let round = 1; round <= 3; round++) {
    const before = promises.size;
    await addUntil(() => promises.size >= before + 700);
    disk.fill();
    expect(statfsSync(disk.folder).bavail).toBe(0);
    await addUntil(({ status }) => status !== 201);
    // Small commits may still fit after a large one failed.
    let inARow = 0;
    await addUntil(({ status }) => {
      inARow = status === 201 ? 0 : inARow + 1;
      return inARow === 20;
    }, 1);
    expect((await get('/v1/pets?limit=100')).json).toHaveLength(100);
    expect((await get('/v1/pets/1')).status).toBe(200);
    disk.free();
    expect((await add(`room again ${round}`)).status).toBe(201);
    await sleep(1000);
    expect((await add(`writes again ${round}`)).status).toBe(201);
    await expect.poll(() => server.stdout().match(/"writes succeed again"/g)).toHaveLength(round);
  }
  await server.stop();
  // One line when they begin to fail, and one for each minute and reason, not one for each request.
  expect(server.stdout().match(/"writes fail"/g)).toHaveLength(3);
  expect(server.stdout().match(/"msg":"service_unavailable"/g)?.length).toBeLessThan(10);
  for (const { status, json } of outcomes) if (status !== 201) expect(json).toEqual(unavailable);
  expect(missingFrom(file, promises)).toEqual([]);
});

test.for(['SIGKILL', 'SIGTERM'] as const)(
  'a server that ended on a full disk with %s starts there: reads work, creates get 503, and succeed when there is room',
  async (signal, context) => {
    const { disk, made } = await makeOnSmallDisk(context);
    const { server, add, promises } = await serve(made, 20);
    await sideBySide(20, async () => {
      while (promises.size < 700) await add(`animal ${promises.size} ${Math.random()}`);
    });
    disk.fill();
    // Small commits may still fit after a large one failed.
    for (let inARow = 0; inARow < 20; ) inARow = (await add(`last ${promises.size}`)).status === 201 ? 0 : inARow + 1;
    await server.end(signal);
    const again = await serve(made, 20, {}, promises);
    expect((await again.get('/v1/pets/700')).status).toBe(200);
    expect((await again.add('no room')).json).toEqual(unavailable);
    disk.free();
    expect((await again.add('room again')).status).toBe(201);
    await again.server.stop();
    expect(missingFrom(made.file, promises)).toEqual([]);
  },
);

test('a start that has no room for the -shm file says so', async (context) => {
  const { disk, made } = await makeOnSmallDisk(context, 1024);
  const { file, env } = made;
  disk.fill();
  const { code, stderr } = await launchServer({ env }).end();
  const cause = 'ENOSPC: no space left on device, write';
  expect([code, stderr]).toEqual([1, `animal-store: DATABASE_URL: ${file} cannot be opened: ${cause}.\n`]);
  expect(readdirSync(disk.folder).filter((name) => name.includes('trial'))).toEqual([]);
});

test('a server starts if its quota is too small for what the WAL has', async (context) => {
  needStrace(context);
  const { server, add, promises, ...made } = await serve(await makeStore(), 1);
  await add('the first');
  await server.end('SIGKILL');
  const under = injecting('pwrite64', 'error=EDQUOT:when=1+', made.file);
  const again = await serve(made, 1, { under }, promises);
  expect((await again.get('/v1/pets/1')).status).toBe(200);
  expect((await again.add('the second')).status).toBe(201);
  await again.server.stop();
  expect(missingFrom(made.file, promises)).toEqual([]);
});

test('with one second per fsync, reads do not wait for the disk, and every POST does', async (context) => {
  needStrace(context);
  const made = await makeStore();
  const files = ['', '/store.db', '/store.db-wal'].map((name) => made.folder + name);
  const under = injecting('fsync,fdatasync', 'delay_exit=1s', ...files);
  const { server: _, ...client } = await serve(made, 22, { under });
  const [readsMs, additionsMs]: [number[], number[]] = [[], []];
  const statuses = new Set<Outcome['status']>();
  const end = performance.now() + tier(4000, 30_000);
  const reads = ['/v1/pets?limit=100', '/v1/pets?status=available'];
  await sideBySide(22, async (index) => {
    const read = reads[index];
    while (performance.now() < end) {
      const begun = performance.now();
      const { status } = await (read ? client.get(read) : client.add(`animal ${index} ${begun}`));
      (read ? readsMs : additionsMs).push(performance.now() - begun);
      statuses.add(status);
      // So that reads do not use all the CPU time that they are measured with.
      if (read) await sleep(2);
    }
  });
  const p99 = percentile(readsMs, 99);
  const quickest = Math.min(...additionsMs);
  expect(statuses).toEqual(new Set([200, 201]));
  expect(readsMs.length).toBeGreaterThan(300);
  expect(quickest).toBeGreaterThan(900);
  expect(p99).toBeLessThan(quickest);
});
