/** One PostgreSQL server for all suites that run on it; each test takes a database of its own from it. */
import fs from 'node:fs';
import postgres from 'postgres';
import type { TestProject } from 'vitest/node';
import { openRepository } from '../../src/repository/open.ts';
import { dataFolder, initialize, start } from './postgres.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Address of the server, without the name of a database; the tests of a project that is given none run on SQLite. */
    postgresUrl: string;
  }
}

interface ForSuites {
  url: string;
  end: () => Promise<void>;
}

export async function startForSuites(): Promise<ForSuites> {
  // What a crash would lose is of no interest here.
  const data = dataFolder({ inMemory: true });
  initialize(data, ['fsync = off', 'full_page_writes = off', 'max_connections = 300', 'autovacuum = off']);
  const server = await start(data);
  const sql = postgres(server.url('postgres'), { max: 1 });
  await sql.unsafe('CREATE DATABASE template_animals');
  await sql.end();
  await (await openRepository(server.url('template_animals'), { now: () => new Date() })).close();
  return {
    url: server.url(''),
    async end() {
      await server.kill();
      fs.rmSync(data, { recursive: true, force: true });
    },
  };
}

let server: ForSuites;

export async function setup({ provide }: TestProject): Promise<void> {
  server = await startForSuites();
  provide('postgresUrl', server.url);
}

export const teardown = () => server.end();
