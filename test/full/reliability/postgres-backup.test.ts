/** Runs the commands of docs/scaling.md on a real cluster under load: dump, base backup, archive, recovery to a moment. */
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { expect, onTestFinished, test } from 'vitest';
import { openClient, type Promises, sideBySide } from '../../support/client.ts';
import { missingPrograms, startCluster } from '../../support/postgres-programs.ts';
import { launchCli, startServer } from '../../support/process.ts';
import { readRunbook } from '../../support/runbook.ts';
import { figure, tier } from '../../support/tier.ts';

const stock = tier(2000, 1_000_000);
const connections = 8;

test('a dump, and a recovery to a moment under load: every animal acknowledged before is there, none after, and no id is given again', async ({
  skip,
}) => {
  if (missingPrograms) return skip(missingPrograms);
  const cluster = await startCluster({ onDisk: tier(false, true) });
  const { archive, backups, shell, data } = cluster;
  const runbook = readRunbook('docs/scaling.md');
  const variables = {
    ...{ PGDATABASE: 'animals', PGDATA: data, ARCHIVE: archive, BACKUPS: backups, RESTORED: 'animals_restored' },
    ...{ DUMP: 'animals.dump', BASE: path.join(backups, 'base'), MOMENT: '' },
  };
  const ms: Record<string, number> = {};
  /** Runs the block that contains `text`, and takes its time. */
  async function run(text: string, others: Partial<typeof variables> = {}): Promise<string> {
    const begun = performance.now();
    const stdout = await shell(runbook.block(text), { ...variables, ...others });
    ms[JSON.stringify(text)] = performance.now() - begun;
    return stdout;
  }
  const connect = (database = 'animals') => {
    const sql = postgres(cluster.url(database), { max: 1, onnotice: () => undefined });
    onTestFinished(() => sql.end({ timeout: 0 }));
    return sql;
  };
  /** Animals that clients added, by name. */
  async function added(sql: postgres.Sql): Promise<Promises> {
    const rows = await sql<{ name: string; id: string }[]>`SELECT name, id FROM pet WHERE id > ${stock}`;
    return new Map(rows.map(({ name, id }) => [name, Number(id)]));
  }
  await shell('createdb animals');
  const names = [...runbook.block('export ').matchAll(/\b([A-Z]+)=/g)].map(([, name]) => name);
  expect(names.sort()).toEqual(Object.keys(variables).sort());
  await run('ALTER SYSTEM SET');

  const env = { DATABASE_URL: cluster.url('animals') };
  const server = await startServer({ env });
  const sql = connect();
  await sql`INSERT INTO pet SELECT i, 'stock ' || i, i % 100, 'available' FROM generate_series(1, ${stock}::bigint) AS i`;
  const now = async () => (await sql`SELECT clock_timestamp()::text AS now`)[0]?.now as string;
  const key = await server.firstKey();
  const promises: Promises = new Map();
  const { add } = openClient(server.url, key, connections, promises);

  /** Adds animals until it is stopped. Each has its name as Idempotency-Key, so that 503 leaves no unknown outcome. */
  function startLoad(label: string) {
    let [sent, stopped] = [0, false];
    const working = sideBySide(connections, async () => {
      while (!stopped) {
        const name = `${label}-${++sent}`;
        while (!promises.has(name)) if ((await add(name, name)).status !== 201) await sleep(100);
      }
    });
    return () => {
      stopped = true;
      return working;
    };
  }
  const acknowledged = (count: number) => expect.poll(() => promises.size, { timeout: 300_000 }).toBeGreaterThan(count);

  // Both backups are taken under load.
  let stopLoad = startLoad('early');
  await acknowledged(200);
  const dumped = { at: await now(), before: new Map(promises) };
  await run('pg_dump ');
  await run('pg_basebackup');
  await run('pg_archivecleanup');
  await run('pg_restore --exit-on-error');
  // Counted first: what is acknowledged while the time is on its way may be later than it.
  const { size } = promises;
  const tooEarly = { at: await now(), acknowledged: size };
  await acknowledged(Math.max(size + 100, tier(1000, 20_000)));
  await stopLoad();

  const kept = new Map(promises);
  const moment = await now();
  await sleep(10);
  await sql`SELECT pg_switch_wal()`;
  stopLoad = startLoad('late');
  await acknowledged(kept.size + 500);
  await stopLoad();
  const highest = Math.max(...promises.values());
  await sql`DELETE FROM pet WHERE status = 'available'`;
  expect((await server.end('SIGTERM')).code).toBe(0);
  await sql.end();

  /** Runs the rest of the runbook, and checks that the service goes on. */
  async function expectService(database: string, from: string): Promise<void> {
    await run('setval', { PGDATABASE: database, MOMENT: from });
    await run('DELETE FROM session', { PGDATABASE: database });
    const { call } = await startServer({ env: { DATABASE_URL: cluster.url(database) } });
    const { json } = await call(key, 'POST', '/v1/pets', { name: 'after the restore', categoryId: 1 });
    expect(json.id).toBeGreaterThan(highest);
  }

  // The dump has everything from before it, and nothing that was not acknowledged.
  const inDump = await added(connect(variables.RESTORED));
  expect([...dumped.before].filter(([name, id]) => inDump.get(name) !== id)).toEqual([]);
  expect([...inDump].filter(([name, id]) => promises.get(name) !== id)).toEqual([]);
  await expectService(variables.RESTORED, dumped.at);

  await run('before-recovery"\ncp');
  // The recovery takes longer than pg_ctl waits, which is 60 s by default.
  const slowly = runbook.block('recovery.signal').replace("'cp $ARCHIVE", "'sleep 2; cp $ARCHIVE");
  await shell(slowly, { ...variables, MOMENT: tooEarly.at, PGCTLTIMEOUT: '1' });
  const first = connect();
  const recovered = (await added(first)).size;
  expect([recovered >= tooEarly.acknowledged, recovered < kept.size]).toEqual([true, true]);
  await first.end();
  await run('recovery_target_timeline = ');
  await run('recovery.signal', { MOMENT: moment });
  expect(await added(connect())).toEqual(kept);
  for (const line of runbook.block('npx animal-store').trim().split('\n')) {
    const args = line.replace('npx animal-store ', '').split(' ');
    const { code, stderr } = await launchCli(args, { env }).end();
    expect([line, code, stderr]).toEqual([line, 0, '']);
  }
  await expectService('animals', moment);
  expect((await run('pg_stat_archiver')).split('|')[0]).toBe('f');
  expect(runbook.rest()).toEqual([]);

  const counts = { acknowledged: promises.size, afterTheMoment: promises.size - kept.size, missing: 0 };
  figure(`PostgreSQL ${cluster.version}, ${stock} animals, milliseconds of each block`, { ...counts, ...ms });
});
