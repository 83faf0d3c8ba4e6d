/** A PostgreSQL server for one test, which needs another one than the suites share. */
import fs from 'node:fs';
import { onTestFinished } from 'vitest';
import { dataFolder, initialize, type Server, start } from './postgres.ts';

/** Starts a server, set up by the lines of `settings`, whose cluster `prepare` has changed before; gone when the test ends. */
export async function startOwn(settings: string[], prepare: (data: string) => void): Promise<Server> {
  const data = dataFolder({ inMemory: true });
  initialize(data, ['fsync = off', ...settings]);
  prepare(data);
  const server = await start(data);
  onTestFinished(async () => {
    await server.kill();
    fs.rmSync(data, { recursive: true, force: true });
  });
  return server;
}
