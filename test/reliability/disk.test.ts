/** A disk that fails, by injected system call errors. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';
import { newSecret, scopes } from '../../src/accounts.ts';
import { openRepository } from '../../src/repository/open.ts';
import { temporaryFolder } from '../support/app.ts';
import { launch, projectFolder } from '../support/process.ts';

const tabby = JSON.stringify({ name: 'Tabby', categoryId: 1 });

/** The server with a key, each fsync of `failing` answered EIO. */
async function startOnFailingDisk(failing: 'store.db' | 'store.db-wal') {
  const folder = temporaryFolder();
  const file = path.join(folder, 'store.db');
  const store = openRepository(`sqlite:${file}`, { now: () => new Date() });
  const secret = newSecret(false);
  await store.accounts.addAccount('zoo');
  await store.accounts.addKey({ account: 'zoo', name: 'till', scopes: [...scopes], lifetimeMs: null, secret });
  await store.close();
  const inject = [
    '-f',
    '-qq',
    '-o',
    '/dev/null',
    '-P',
    path.join(folder, failing),
    '-e',
    'inject=fsync,fdatasync:error=EIO',
  ];
  const env = { PORT: '0', DATABASE_URL: `sqlite:${file}` };
  const server = launch('strace', [...inject, process.execPath, `${projectFolder}src/main.ts`], { folder, env });
  const [, url = ''] = await server.seen('stdout', /Server listening at (http:\S+?)"/);
  const headers = { authorization: `Bearer ${secret.key}`, 'content-type': 'application/json' };
  const add = () =>
    fetch(`${url}/v1/pets`, { method: 'POST', headers, body: tabby }).then(
      ({ status }) => status,
      () => 'cut',
    );
  return { server, add };
}

const skipped = spawnSync('strace', ['-V']).error ? 'strace is not installed: no failing disk to be had' : undefined;

test('a commit whose fsync fails is 503, and the process ends with 1 within 2 s', async ({ skip }) => {
  if (skipped) skip(skipped);
  const { server, add } = await startOnFailingDisk('store.db-wal');
  expect(await add()).toBe(503);
  const begun = performance.now();
  expect(await server.end()).toMatchObject({ code: 1, stdout: expect.stringContaining('SQLITE_IOERR_FSYNC') });
  expect(performance.now() - begun).toBeLessThan(2000);
});

test('a checkpoint whose fsync fails ends the process with 1, and nothing is acknowledged after', async ({ skip }) => {
  if (skipped) skip(skipped);
  const { server, add } = await startOnFailingDisk('store.db');
  const answers: (number | string)[] = [];
  while (answers.length < 3000 && !answers.some((answer) => answer !== 201)) {
    answers.push(...(await Promise.all(Array.from({ length: 50 }, add))));
  }
  expect(answers.some((answer) => answer === 503 || answer === 'cut')).toBe(true);
  expect(await add()).not.toBe(201);
  expect(await server.end()).toMatchObject({ code: 1, stdout: expect.stringContaining('SQLITE_IOERR_FSYNC') });
}, 60_000);
