/** Puts many clients on one server while its PostgreSQL database fails, and counts the database's connections. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import type { Server } from './process.ts';

export interface Pressure {
  /** Backends of the server, counted every 250 ms. */
  backends: () => number[];
  /** Every answer: 0 if there was none. */
  answers: () => { status: number; method: string; begun: number; ended: number }[];
  stop: () => Promise<void>;
}

const clients = 64;

/** `application_name` of connections that do not belong to the server. */
export const notCounted = 'a test';

/** Half of the clients add pets, and half list them. `watchUrl`: any database of the server that `databaseName` is on. */
export async function press(server: Server, key: string, watchUrl: string, databaseName: string): Promise<Pressure> {
  const sql = postgres(watchUrl, { max: 1 });
  // Connected before the fault.
  await sql`SELECT 1`;
  const answers: ReturnType<Pressure['answers']> = [];
  const counts: number[] = [];
  let stopped = false;

  async function client(index: number): Promise<void> {
    const method = index % 2 ? 'GET' : 'POST';
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    while (!stopped) {
      const begun = performance.now();
      const body = method === 'GET' ? null : JSON.stringify({ name: randomUUID(), categoryId: 1 });
      const query = method === 'GET' ? `?limit=${1 + (index % 50)}` : '';
      const status = await fetch(`${server.url}/v1/pets${query}`, { method, headers, body }).then(
        async (response) => {
          await response.text();
          return response.status;
        },
        () => 0,
      );
      answers.push({ status, method, begun, ended: performance.now() });
      // A busy loop of 503s would only load the machine.
      if (status !== 200 && status !== 201) await sleep(20);
    }
  }

  async function count(): Promise<void> {
    while (!stopped) {
      const rows = await sql`
        SELECT FROM pg_stat_activity
        WHERE datname = ${databaseName} AND backend_type = 'client backend' AND application_name <> ${notCounted}`;
      counts.push(rows.length);
      await sleep(250);
    }
  }

  const running = [count(), ...Array.from({ length: clients }, (_, index) => client(index))];
  return {
    backends: () => counts,
    answers: () => answers,
    async stop() {
      stopped = true;
      await Promise.all(running);
      await sql.end();
    },
  };
}
