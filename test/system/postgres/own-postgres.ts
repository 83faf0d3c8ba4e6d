/** Starts a separate PostgreSQL server for a test that cannot use the shared one. */
import fs from 'node:fs';
import { onTestFinished } from 'vitest';
import { dataFolder, initialize, start } from '../../support/postgres.ts';

/** `settings` are lines of postgresql.conf; `prepare` can change the cluster before the start. The server is removed when the test ends. */
export async function startOwn(settings: string[] = [], prepare?: (data: string) => void) {
  const data = dataFolder({ inMemory: true });
  initialize(data, ['fsync = off', ...settings]);
  prepare?.(data);
  const server = await start(data);
  onTestFinished(async () => {
    await server.kill();
    fs.rmSync(data, { recursive: true, force: true });
  });
  return server;
}
