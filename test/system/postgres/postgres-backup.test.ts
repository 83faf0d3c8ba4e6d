/** Runs the commands of docs/scaling.md on a real cluster under load: dump, base backup, archive, recovery to a moment. */
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import { expect, test } from 'vitest';
import { openClient, type Promises, sideBySide } from '../../support/client.ts';
import { startServer } from '../../support/process.ts';
import { blocksOf, read } from '../../support/project.ts';
import { clientOf } from '../../support/store.ts';
import { tier } from '../../support/tier.ts';
import { missingPrograms, startCluster } from './postgres-programs.ts';

const connections = 8;

const blocks = blocksOf(read('docs/scaling.md'), 'sh');

test('a dump, and a recovery to a moment under load: each animal acknowledged before is there, none after; no id is given again', async ({
  skip,
}) => {
  if (missingPrograms) return skip(missingPrograms);
  const { archive, backups, shell, data, url } = await startCluster();
  const variables = {
    PGDATABASE: 'animals',
    PGDATA: data,
    ARCHIVE: archive,
    BACKUPS: backups,
    RESTORED: 'animals_restored',
    DUMP: `${backups}/animals.dump`,
    BASE: `${backups}/base`,
  };
  /** Runs the block that contains `text`. */
  const run = (text: string, MOMENT = '') =>
    shell(blocks.find((block) => block.includes(text)) as string, { ...variables, MOMENT });
  const connect = (database = 'animals') => clientOf(url(database));
  async function animalsOf(sql: postgres.Sql): Promise<Promises> {
    const rows = await sql<{ name: string; id: string }[]>`SELECT name, id FROM pet`;
    return new Map(rows.map(({ name, id }) => [name, Number(id)]));
  }
  await shell('createdb animals');
  await run('ALTER SYSTEM SET');
  const env = { DATABASE_URL: url('animals') };
  const server = await startServer({ env });
  const sql = connect();
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

  let stopLoad = startLoad('early');
  await acknowledged(200);
  const beforeDump = new Map(promises);
  for (const text of ['pg_dump ', 'pg_basebackup', 'pg_restore --exit-on-error']) await run(text);
  await acknowledged(promises.size + tier(100, 20_000));
  await stopLoad();
  const kept = new Map(promises);
  const [{ moment }] = await sql<[{ moment: string }]>`SELECT clock_timestamp()::text AS moment`;
  await sleep(10);
  await sql`SELECT pg_switch_wal()`;
  stopLoad = startLoad('late');
  await acknowledged(kept.size + 500);
  await stopLoad();
  await sql`DELETE FROM pet`;
  await server.stop();
  await sql.end();

  // The dump has everything from before it, and nothing that was not acknowledged.
  const inDump = await animalsOf(connect(variables.RESTORED));
  expect([...beforeDump].filter(([name, id]) => inDump.get(name) !== id)).toEqual([]);
  expect([...inDump].filter(([name, id]) => promises.get(name) !== id)).toEqual([]);

  await run('before-recovery"\ncp');
  await run('recovery.signal', moment);
  expect(await animalsOf(connect())).toEqual(kept);
  await run('setval', moment);
  await run('DELETE FROM session');
  const { call } = await startServer({ env });
  const { json } = await call(key, 'POST', '/v1/pets', { name: 'after the restore', categoryId: 1 });
  expect(json.id).toBeGreaterThan(Math.max(...promises.values()));
  const archiver = await connect()`
    SELECT last_failed_time IS NULL OR last_archived_time > last_failed_time AS works FROM pg_stat_archiver`;
  expect(archiver).toMatchObject([{ works: true }]);
});
