/** Runs the commands of docs/scaling.md on a real cluster: dump, base backup, archive, recovery to a moment, and damaged backups. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { password } from '../../support/account-pages.ts';
import { type Client, openClient, type Promises, sideBySide } from '../../support/client.ts';
import { openFormClient } from '../../support/form-client.ts';
import { type Cluster, missingPrograms, startCluster } from '../../support/postgres-programs.ts';
import { launchCli, runCli, type Server, startServer } from '../../support/process.ts';
import { readRunbook } from '../../support/runbook.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

const stock = tier(2000, 1_000_000);
const connections = 8;

beforeEach(({ skip }) => {
  if (missingPrograms) skip(missingPrograms);
});

/** The cluster, with the document's variables and the means to run its blocks. */
async function prepare() {
  const cluster = await startCluster({ onDisk: tier(false, true) });
  const { archive, backups, shell } = cluster;
  const variables = {
    ...{
      PGDATABASE: 'animals',
      PGDATA: cluster.data,
      ARCHIVE: archive,
      BACKUPS: backups,
      RESTORED: 'animals_restored',
    },
    ...{ DUMP: 'animals.dump', BASE: path.join(backups, 'base'), MOMENT: '' },
  };
  const runbook = readRunbook('docs/scaling.md');
  /** Runs the block that contains `text`; resolves to its output and its time in milliseconds. */
  async function run(text: string, others: Partial<typeof variables> = {}) {
    const begun = performance.now();
    const stdout = await shell(runbook.block(text), { ...variables, ...others });
    return { stdout, ms: performance.now() - begun };
  }
  await shell('createdb animals');
  const begins = runbook.block('export ');
  expect([...begins.matchAll(/\b([A-Z]+)=/g)].map(([, name]) => name).sort()).toEqual(Object.keys(variables).sort());
  await run('ALTER SYSTEM SET');
  return { cluster, variables, runbook, run };
}

const archiverQuery = 'pg_stat_archiver';

function connect(cluster: Cluster, database = 'animals'): postgres.Sql {
  const sql = postgres(cluster.url(database), { max: 1, onnotice: () => undefined });
  onTestFinished(() => sql.end({ timeout: 0 }));
  return sql;
}

/** Adds animals until it is stopped. Each has its name as Idempotency-Key, so that 503 leaves no unknown outcome. */
function startLoad(client: Client, label: string) {
  let [sent, stopped] = [0, false];
  const working = sideBySide(connections, async () => {
    while (!stopped) await addOnce(client, `${label}-${++sent}`);
  });
  return () => {
    stopped = true;
    return working;
  };
}

async function addOnce(client: Client, name: string): Promise<number> {
  for (;;) {
    const { status, json } = await client.add(name, name);
    if (status === 201) return json.id;
    if (status !== 503) throw new Error(`${status} for ${name}`);
    await sleep(100);
  }
}

async function idsOfAllPages(client: Client): Promise<number[]> {
  const ids: number[] = [];
  for (let next: string | undefined = '/v1/pets?limit=100'; next !== undefined; ) {
    const { status, json, headers } = await client.get(next);
    expect(status).toBe(200);
    for (const { id } of json) ids.push(id);
    next = /<([^>]+)>; rel="next"/.exec(String(headers.link))?.[1];
  }
  return ids;
}

const count = (upTo: number) => Array.from({ length: upTo }, (_, index) => index + 1);

/** Animals that clients added, by name. */
async function namesIn(sql: postgres.Sql): Promise<Promises> {
  const rows = await sql<{ name: string; id: string }[]>`SELECT name, id FROM pet WHERE id > ${stock}`;
  return new Map(rows.map(({ name, id }) => [name, Number(id)]));
}

function folderBytes(folder: string): number {
  const files = fs.readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, file) => sum + fs.statSync(path.join(file.parentPath, file.name)).size, 0);
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
const megabytes = (bytes: number) => `${Math.round(bytes / 1e6)} MB`;

/** Starts the service on a restored database and checks that it goes on: the key, all pages, and an id that was never given. */
async function expectService(databaseUrl: string, key: string, ids: number[], highest: number) {
  const server = await startServer({ env: { DATABASE_URL: databaseUrl } });
  const client = openClient(server.url, key, connections);
  expect(await idsOfAllPages(client)).toEqual(ids);
  const added = await addOnce(client, 'after-the-restore');
  expect(added).toBeGreaterThan(highest);
  expect((await idsOfAllPages(client)).slice(-2)).toEqual([ids.at(-1), added]);
  return { server, client };
}

/** Starts the service, with `animals` in its store. */
async function startStocked(cluster: Cluster, animals: number): Promise<{ server: Server; sql: postgres.Sql }> {
  const server = await startServer({ env: { DATABASE_URL: cluster.url('animals') } });
  const sql = connect(cluster);
  await sql`INSERT INTO pet SELECT i, 'stock ' || i, i % 100, 'available' FROM generate_series(1, ${animals}::bigint) AS i`;
  return { server, sql };
}

test(
  'a dump, and a recovery to a moment under load: every animal acknowledged before is there, none after, and no id is given again',
  async () => {
    const { cluster, variables, runbook, run } = await prepare();
    const { server, sql } = await startStocked(cluster, stock);
    const key = await server.firstKey();
    const promises: Promises = new Map();
    const client = openClient(server.url, key, connections, promises);
    const cli = async (...args: string[]) => {
      const { code, stdout, stderr } = await runCli(args, { env: { DATABASE_URL: cluster.url('animals') } });
      expect([code, stderr]).toEqual([0, expect.not.stringContaining('animal-store:')]);
      return stdout;
    };
    const newKey = async (name: string) =>
      /^ast_\w+$/m.exec(await cli('key', 'create', '--account', 'shelter', '--name', name))?.[0] as string;
    const now = async () => (await sql`SELECT clock_timestamp()::text AS now`)[0]?.now as string;
    await cli('account', 'add', 'shelter');
    const olderKey = await newKey('older');
    const signUp = openFormClient(server.url);
    await signUp.post('/account/sign-up', { name: 'ada', password });
    const token = signUp.jar.get('session') as string;
    const link = new URL((await cli('account', 'invite')).trim()).pathname;
    /** Runs the runbook's command on the session and the link that a restore has brought back. */
    async function endSessions(database: string): Promise<void> {
      const restored = connect(cluster, database);
      expect(await restored`SELECT 1 FROM session UNION ALL SELECT 2 FROM one_time_link`).toHaveLength(2);
      await restored.end();
      await run('DELETE FROM session', { PGDATABASE: database });
    }
    async function expectSignedOut({ url }: Server): Promise<void> {
      const old = openFormClient(url);
      old.jar.set('session', token);
      expect(await old.get('/account')).toMatchObject({
        status: 303,
        headers: { location: '/account/sign-in?done=ended' },
      });
      expect((await old.post(link, { name: 'eve', password })).status).toBe(404);
      expect((await old.post('/account/sign-in', { name: 'ada', password })).status).toBe(303);
    }

    // Both backups are taken under load.
    let stopLoad = startLoad(client, 'early');
    await expect.poll(() => promises.size, { timeout: patientMs / 2 }).toBeGreaterThan(200);
    const dumped = { at: await now(), before: new Map(promises) };
    const dump = await run('pg_dump ');
    const base = await run('pg_basebackup');
    await run('pg_archivecleanup');
    const restore = await run('pg_restore --exit-on-error');
    // Counted first: what is acknowledged while the time is on its way may be later than it.
    const acknowledged = promises.size;
    const tooEarly = { at: await now(), acknowledged };
    await expect.poll(() => promises.size, { timeout: patientMs / 2 }).toBeGreaterThan(tier(1000, 20_000));
    await stopLoad();

    const kept = new Map(promises);
    const moment = await now();
    await sleep(10);
    await sql`SELECT pg_switch_wal()`;
    stopLoad = startLoad(client, 'late');
    await expect.poll(() => promises.size, { timeout: patientMs / 2 }).toBeGreaterThan(kept.size + 500);
    await stopLoad();
    const highest = Math.max(...promises.values());
    await cli('key', 'revoke', '2');
    await signUp.post('/account/sign-out-everywhere');
    expect((await openFormClient(server.url).post(link, { name: 'ben', password })).status).toBe(303);
    const newerKey = await newKey('newer');
    await sql`DELETE FROM pet WHERE status = 'available'`;
    expect((await server.end('SIGTERM')).code).toBe(0);

    // The dump has everything from before it, and nothing that was not acknowledged.
    const restored = connect(cluster, variables.RESTORED);
    const inDump = await namesIn(restored);
    expect([...dumped.before].filter(([name, id]) => inDump.get(name) !== id)).toEqual([]);
    expect([...inDump].filter(([name, id]) => promises.get(name) !== id)).toEqual([]);
    await run('setval', { PGDATABASE: variables.RESTORED, MOMENT: dumped.at });
    await endSessions(variables.RESTORED);
    const fromDump = await expectService(cluster.url(variables.RESTORED), key, count(stock + inDump.size), highest);
    await expectSignedOut(fromDump.server);

    await sql.end();
    await restored.end();
    const stop = await run('before-recovery"\ncp');
    // The recovery takes longer than pg_ctl waits, which is 60 s by default.
    const slowly = runbook.block('recovery.signal').replace("'cp $ARCHIVE", "'sleep 2; cp $ARCHIVE");
    await cluster.shell(slowly, { ...variables, MOMENT: tooEarly.at, PGCTLTIMEOUT: '1' });
    const first = connect(cluster);
    const { size } = await namesIn(first);
    expect([size >= tooEarly.acknowledged, size < kept.size]).toEqual([true, true]);
    await first.end();
    await run('recovery_target_timeline = ');
    const recovery = await run('recovery.signal', { MOMENT: moment });
    const raise = await run('setval', { MOMENT: moment });
    const recovered = connect(cluster);
    expect(await namesIn(recovered)).toEqual(kept);
    const checking = performance.now();
    for (const line of runbook.block('npx animal-store').trim().split('\n')) {
      const args = line.replace('npx animal-store ', '').split(' ');
      const { code, stderr } = await launchCli(args, { env: { DATABASE_URL: cluster.url('animals') } }).end();
      expect([line, code, stderr]).toEqual([line, 0, '']);
    }
    const checkMs = performance.now() - checking;
    await endSessions('animals');
    const again = await expectService(cluster.url('animals'), key, count(stock + kept.size), highest);
    const [[name, id] = ['', 0]] = [...kept].slice(-1);
    expect(await again.client.add(name, name)).toMatchObject({
      ...{ status: 201, json: { id }, headers: { 'idempotent-replayed': 'true' } },
    });
    await expectSignedOut(again.server);
    const statusWith = async (otherKey: string) => (await again.server.call(otherKey, 'GET', '/v1/pets')).status;
    expect([await statusWith(olderKey), await statusWith(newerKey)]).toEqual([200, 401]);
    const [archiving] = (await run(archiverQuery)).stdout.split('|');
    expect(archiving).toBe('f');
    expect(runbook.rest()).toEqual([]);

    // Of the first timeline, and since the base backup: pg_archivecleanup has removed those before it.
    const wal = fs.readdirSync(cluster.archive).filter((name) => /^00000001[\dA-F]{16}$/.test(name)).length;
    figure(
      `PostgreSQL ${cluster.version}, ${stock + kept.size} animals: dump ${seconds(dump.ms)}, ${megabytes(fs.statSync(path.join(variables.BACKUPS, variables.DUMP)).size)}; restored in ${seconds(restore.ms)}; base backup with its check ${seconds(base.ms)}, ${megabytes(folderBytes(variables.BASE))}; recovery to a moment ${seconds(stop.ms + recovery.ms + raise.ms)} from the stop of PostgreSQL to the last command, of which ${seconds(recovery.ms)} replay ${wal} files of WAL; animal-store migrate and check ${seconds(checkMs)}; ${kept.size} acknowledged before the moment, 0 missing, ${promises.size - kept.size} after it, 0 there`,
    );
  },
  patientMs,
);
