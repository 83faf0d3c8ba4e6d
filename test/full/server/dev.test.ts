/** `npm run dev` serves each change of the source. */
import { expect, test } from 'vitest';
import { findPort } from '../../support/known-port.ts';
import { change, copySource } from '../../support/plant.ts';
import { launch } from '../../support/process.ts';

test('npm run dev serves again after each change of a file', { timeout: 60_000 }, async () => {
  const folder = copySource();
  const port = await findPort();
  const env = { PORT: String(port), OPS_PORT: 'off' };
  const dev = launch('npm', ['run', 'dev'], { folder, env, group: true });
  const [, key] = await dev.seen('stderr', /^ {2}(ast_test_\w+)$/m);
  const ask = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, init).catch(() => undefined);
    return `${response?.status} ${await response?.text()}`;
  };
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  // The writer thread replies.
  const create = () => ask('/v1/pets', { method: 'POST', headers, body: '{"name":"Tabby","categoryId":1}' });
  const soon = { timeout: 20_000, interval: 100 };
  expect(await create()).toMatch(/^201/);

  change(folder, 'src/http/not-found.ts', 'The API is below', 'Changed: the API is below');
  await expect.poll(() => ask('/nowhere'), soon).toContain('Changed: the API is below');
  expect(await create()).toMatch(/^201/);

  // Only the thread loads this file.
  change(folder, 'src/store/sqlite/writer-thread.ts', 'const maxBatch = 1000;', 'const maxBatch = 1;');
  await dev.seen('stdout', /(?:Restarting[\s\S]+?Server listening[\s\S]+?){2}/);
  await expect.poll(create, soon).toMatch(/^201/);

  // Ctrl-C.
  expect((await dev.end('SIGINT')).stdout).toMatch(/"stopped"}\n$/);
});
