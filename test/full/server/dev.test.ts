/** `npm run dev` serves each change of the source. Its --watch and other tools send messages that are not the server's own. */
import { expect, test } from 'vitest';
import { findPort } from '../../support/known-port.ts';
import { change, copySource } from '../../support/plant.ts';
import { launch, startServer } from '../../support/process.ts';

test.for(['1', '2'])(
  'npm run dev serves again after each change of a file, WORKERS %s',
  { timeout: 60_000 },
  async (WORKERS) => {
    const folder = copySource();
    const [port, opsPort] = [await findPort(), await findPort()];
    const env = { PORT: String(port), OPS_PORT: String(opsPort), WORKERS };
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
  },
);

test('messages of others between the processes of WORKERS are ignored', async () => {
  const script = `
    import cluster from 'node:cluster';
    const others = ['restart', 1, true, [], { 'watch:import': [] }, { ready: 'no' }, { ready: null }];
    // The callback hears that the other process has ended.
    const send = (target) => others.forEach((message) => target.send(message, undefined, undefined, () => {}));
    const sendTo = (target) => setInterval(send, 5, target).unref();
    if (process.send) sendTo(process);
    else cluster.on('online', sendTo);`;
  const preload = `--import=data:text/javascript,${encodeURIComponent(script)}`;
  const server = await startServer({ env: { WORKERS: '2', NODE_OPTIONS: preload } });
  const key = await server.firstKey();
  for (let count = 0; count < 10; count++) {
    expect((await server.call(key, 'GET', '/v1/pets')).status).toBe(200);
    expect((await fetch(`${server.opsUrl()}/readyz`)).status).toBe(200);
  }
  const { code, stdout } = await server.end('SIGTERM');
  expect(code).toBe(0);
  expect(stdout).not.toMatch(/a worker exited|"reason":"restart"/);
});
