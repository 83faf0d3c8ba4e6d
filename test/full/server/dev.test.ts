/** `npm run dev` serves each change of the source. */
import { expect, test } from 'vitest';
import { findPort } from '../../support/known-port.ts';
import { change, copySource } from '../../support/plant.ts';
import { launch } from '../../support/process.ts';

test('npm run dev serves again after each change of a file', { timeout: 60_000 }, async () => {
  const folder = copySource();
  const [port, opsPort] = [await findPort(), await findPort()];
  const env = { PORT: String(port), OPS_PORT: String(opsPort) };
  const dev = launch('npm', ['run', 'dev'], { folder, env, group: true });
  const [, key] = await dev.seen('stderr', /^ {2}(ast_test_\w+)$/m);
  const url = `http://127.0.0.1:${port}`;
  const textAt = (address: string) =>
    fetch(address).then(
      (response) => response.text(),
      () => undefined,
    );
  // The writer thread replies.
  const create = () =>
    fetch(`${url}/v1/pets`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: '{"name":"Tabby","categoryId":1}',
    }).then(
      ({ status }) => status,
      () => undefined,
    );
  const soon = { timeout: 20_000, interval: 100 };
  expect(await create()).toBe(201);
  await expect.poll(() => textAt(`http://127.0.0.1:${opsPort}/readyz`), soon).toContain('ready');

  change(folder, 'src/http/not-found.ts', 'The API is below', 'Changed: the API is below');
  await expect.poll(() => textAt(`${url}/nowhere`), soon).toContain('Changed: the API is below');
  expect(await create()).toBe(201);

  // Only the thread loads this file.
  change(folder, 'src/store/sqlite/writer-thread.ts', 'const maxBatch = 1000;', 'const maxBatch = 1;');
  await dev.seen('stdout', /(?:Restarting[\s\S]+?Server listening[\s\S]+?){2}/);
  await expect.poll(create, soon).toBe(201);

  // Ctrl-C.
  expect((await dev.end('SIGINT')).stdout).toMatch(/"stopped"}\n$/);
});
