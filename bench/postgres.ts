/** Starts a real PostgreSQL for the load: on disk, with fsync, its processes not pinned to a core. */
import { rmSync } from 'node:fs';
import postgres from 'postgres';
import { copyStore } from '../src/store/copy.ts';
import { dataFolder, initialize, start } from '../test/support/postgres.ts';

/** Starts PostgreSQL with databases that are copies of the store in `file`. */
export async function startPostgres(
  file: string,
  names: string[],
): Promise<{ urls: string[]; stop: () => Promise<void> }> {
  const data = dataFolder();
  initialize(data, []);
  const server = await start(data);
  async function stop() {
    await server.kill();
    rmSync(data, { recursive: true, force: true });
  }
  // Stop it even if the run fails.
  process.once('exit', stop);
  const administrator = postgres(server.url('postgres'), { max: 1 });
  const urls: string[] = [];
  for (const name of names) {
    await administrator`CREATE DATABASE ${administrator(name)}`;
    urls.push(server.url(name));
    await copyStore(file, server.url(name), { now: () => new Date() });
  }
  await administrator.end();
  return { urls, stop };
}

/** Animals that one statement adds. */
const step = 500_000;

/** Adds animals until the database has `rows`, which alternate between the statuses. Then the planner knows the table. */
export async function fillPostgres(url: string, rows: number): Promise<void> {
  const sql = postgres(url, { max: 1 });
  const [{ last }] = await sql<[{ last: number }]>`SELECT max(id)::integer AS last FROM pet`;
  for (let first = last + 1; first <= rows; first += step)
    await sql`
      INSERT INTO pet (id, name, category_id, status)
      SELECT i, 'pet ' || i, i % 100, (ARRAY['sold', 'available', 'pending'])[1 + i % 3]
      FROM generate_series(${first}::integer, ${Math.min(first + step - 1, rows)}::integer) AS i`;
  await sql`VACUUM ANALYZE pet`;
  await sql.end();
}
