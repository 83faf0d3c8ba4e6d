/** Signals during the stop: copies, which npm and supervisors send, cut nothing off. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { plant } from '../../support/plant.ts';
import { begin, startServer, startWithNpm } from '../../support/process.ts';

// As from a terminal, timeout(1) and some supervisors. npm passes the signal on, so that the server gets it twice.
test('SIGINT to all processes of npm start: a request under way is answered, then exit 0', async () => {
  const file = path.join(temporaryFolder(), 'store.db');
  const npm = await startWithNpm({ DATABASE_URL: `sqlite:${file}` });
  const finish = await begin(npm);
  const end = npm.end('SIGINT');
  await npm.seen('stdout', /"stopping"/);
  // Copies of the signal arrive meanwhile, and idle connections are closed.
  await sleep(350);
  await finish();
  expect(await end).toMatchObject({ code: 0, stdout: expect.stringContaining('"stopped"') });
  expect([existsSync(file), existsSync(`${file}-wal`)]).toEqual([true, false]);
});

test('a stop that does not end, ends at its deadline with exit 1, however many signals follow', async () => {
  const source = plant('src/server/serve.ts', 'await closed;', 'await new Promise(() => undefined);');
  const server = await startServer({ source });
  void server.end('SIGTERM');
  await server.seen('stdout', /"stopping"/);
  for (let seconds = 0; seconds < 8; seconds++) {
    await sleep(1000);
    void server.end('SIGTERM');
  }
  expect((await server.end()).code).toBe(1);
}, 60_000);
