/** Tests of what a store on a real PostgreSQL measures: failed writes by reason, errors by reason, query times. */
import { beforeEach, expect, test } from 'vitest';
import { read } from '../../support/deployment.ts';
import { missingPostgres } from '../../support/postgres.ts';
import { startServer } from '../../support/process.ts';
import { clientOf, newDatabase, open } from '../../support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

beforeEach(({ skip }) => {
  if (missingPostgres) skip(missingPostgres);
});

/** What is not 0. */
const counted = (counters: Readonly<Record<string, number>> = {}) =>
  Object.fromEntries(Object.entries(counters).filter(([, count]) => count > 0));

/** A trigger that runs `what` before each pet is added. */
const beforeAdding = (what: string) => `
  CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${what}; RETURN NEW; END $$;
  CREATE TRIGGER fault BEFORE INSERT ON pet EXECUTE FUNCTION fault()`;

test.for([
  ['disk_full', beforeAdding("RAISE SQLSTATE '53100'")],
  ['io', beforeAdding("RAISE SQLSTATE '58030'")],
  ['other', beforeAdding("RAISE SQLSTATE 'ZZ001'")],
  ['locked', beforeAdding("PERFORM set_config('lock_timeout', '20ms', true); LOCK TABLE message")],
  ['timeout', beforeAdding('PERFORM pg_sleep(60)')],
  ['connection', beforeAdding('PERFORM pg_terminate_backend(pg_backend_pid())')],
  ['read_only', 'ALTER DATABASE $name SET default_transaction_read_only = on'],
])('a write that fails counts as %s, and so does its error', async ([reason = '', fault = '']) => {
  const databaseUrl = await newDatabase({ template: 'template_animals' });
  const admin = clientOf(databaseUrl);
  const locked = await clientOf(databaseUrl).reserve();
  await locked`BEGIN`;
  await locked`LOCK TABLE message`;
  const times: [string, number][] = [];
  const commits: number[] = [];
  const metrics = {
    commit: (writes: number) => void commits.push(writes),
    query: (...each: [string, number]) => void times.push(each),
  };
  const store = await open(databaseUrl, { metrics });
  await store.pets.add(biscuit);
  expect(store.measure()).toMatchObject({ lastFailedWriteAt: 0 });
  await admin.unsafe(fault.replace('$name', new URL(databaseUrl).pathname.slice(1)));
  if (reason === 'read_only') {
    // A setting of the database is for new sessions.
    await admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'animal-store'`;
    await expect.poll(() => store.measure().pool?.errors.connection).toBe(1);
  }
  const before = Date.now();
  await expect(Promise.all([store.pets.add(biscuit), store.pets.add(biscuit)])).rejects.toThrow();
  const { failedWrites, lastFailedWriteAt, pool } = store.measure();
  expect([counted(failedWrites), commits]).toEqual([{ [reason]: 2 }, [1]]);
  expect(lastFailedWriteAt).toBeGreaterThanOrEqual(before);
  expect(Object.keys(counted(pool?.errors))).toContain(reason);
  // The time of a statement that is cancelled is known when the server has let it go.
  const least = reason === 'timeout' ? 2000 : 0;
  await expect.poll(() => times.at(-1)).toEqual(['write', expect.toSatisfy((ms) => ms > least)]);
  await locked`ROLLBACK`;
  locked.release();
});

test('the metrics have what alerts and dashboard ask for, and the time of each statement', async () => {
  const server = await startServer({ env: { DATABASE_URL: await newDatabase({ template: 'template_animals' }) } });
  const metrics = async () => (await fetch(`${server.opsUrl()}/metrics`)).text();
  const asked = read('deploy/prometheus/alerts.yml') + read('deploy/grafana/dashboard.json');
  const text = await metrics();
  const names = new Set(asked.match(/animal_store_database_[a-z_]+/g));
  expect(names.size).toBeGreaterThan(2);
  for (const name of names) expect(text).toContain(`# TYPE ${name.replace(/_(bucket|count|sum)$/, '')} `);
  const writes = (text: string) =>
    Number(/^animal_store_database_query_duration_seconds_count\{kind="write"\} (\d+)$/m.exec(text)?.[1]);
  await server.call(await server.firstKey(), 'POST', '/v1/pets', { name: 'Tabby', categoryId: 1 });
  expect(writes(await metrics())).toBeGreaterThan(writes(text));
});
