/** Starts one PostgreSQL server for all suites that run on it; each test uses its own database. */
import fs from 'node:fs';
import postgres from 'postgres';
import type { TestProject } from 'vitest/node';
import { openStore } from '../../src/store/open.ts';
import { dataFolder, initialize, start } from './postgres.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the server, without a database name. A project without it runs on SQLite. */
    postgresUrl: string;
  }
}

let end: () => Promise<void>;

export async function setup({ provide }: TestProject) {
  // In memory, where fsync is fast: the tests of production need it on.
  const data = dataFolder({ inMemory: true });
  initialize(data, ['max_connections = 300', 'autovacuum = off']);
  const server = await start(data);
  end = async () => {
    await server.kill();
    fs.rmSync(data, { recursive: true, force: true });
  };
  const sql = postgres(server.url('postgres'), { max: 1 });
  await sql.unsafe('CREATE DATABASE template_animals');
  await sql.end();
  await (await openStore(server.url('template_animals'), { now: () => new Date() })).close();
  provide('postgresUrl', server.url(''));
}

export const teardown = () => end();
