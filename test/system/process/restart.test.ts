/** Tests stops and restarts under load: of clients that follow /readyz as a load balancer does, and of those that follow `Connection: close`. */
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../support/client.ts';
import { startServer } from '../../support/process.ts';
import { makeStore } from '../../support/store-file.ts';
import { tier } from '../../support/tier.ts';

test('restarts under load fail no request of clients that follow /readyz, and each exits with 0 in time', async () => {
  const lameDuckMs = 500;
  const made = await makeStore();
  const start = async () => {
    const server = await startServer({ env: { ...made.env, LAME_DUCK_MS: String(lameDuckMs) } });
    return { server, client: openClient(server.url, made.key, 8), ready: true };
  };
  const backends = [await start(), await start()];
  let running = true;
  const failures: string[] = [];

  async function probe() {
    for (; running; await sleep(50))
      for (const backend of backends)
        backend.ready = await fetch(`${backend.server.opsUrl()}/readyz`).then(
          ({ status }) => status === 200,
          () => false,
        );
  }

  async function ask(index: number) {
    // The pause leaves CPU time for starting servers and for the probes.
    for (let turn = index; running; turn++, await sleep(5)) {
      const open = backends.filter(({ ready }) => ready);
      const { client } = open[turn % open.length] as (typeof open)[0];
      const writing = turn % 4 === 0;
      const { status } = await (writing ? client.add(`pet ${index} ${turn}`) : client.get('/v1/pets?limit=5'));
      if (status !== (writing ? 201 : 200)) failures.push(`${writing ? 'POST' : 'GET'} ${status}`);
    }
  }

  const load = [probe(), ...Array.from(Array(8), (_, index) => ask(index))];
  const restarts = tier(20, 100);
  let slowest = 0;
  for (let restart = 0; restart < restarts; restart++) {
    const backend = backends[restart % 2] as (typeof backends)[0];
    const begun = performance.now();
    await backend.server.stop();
    slowest = Math.max(slowest, performance.now() - begun);
    Object.assign(backend, await start(), { ready: false });
    await expect.poll(() => backend.ready, { timeout: 5000 }).toBe(true);
  }
  running = false;
  await Promise.all(load);
  expect(failures).toEqual([]);
  expect(slowest).toBeLessThan(lameDuckMs + 3000);
});

/** Reads pets over one connection at a time, which it closes when a response asks for it, until no more is accepted. Resolves to that error. */
function readUntilRefused(port: number, key: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const headers = { authorization: `Bearer ${key}` };
  return new Promise((resolve) => {
    function ask() {
      const request = get({ port, host: '127.0.0.1', path: '/v1/pets?limit=20', agent, headers }, (response) => {
        response.resume();
        response.on('error', (error: NodeJS.ErrnoException) => resolve(`body: ${error.code}`));
        response.on('end', ask);
      });
      // A new connection may be reset instead of refused: the kernel had accepted it, the server had not.
      request.on('error', ({ code }: NodeJS.ErrnoException) =>
        resolve(request.reusedSocket ? `reused: ${code}` : 'refused'),
      );
    }
    ask();
  });
}

test('SIGTERM under load: every request is answered, and none is sent into a closed connection', async () => {
  for (let stops = 0; stops < tier(3, 10); stops++) {
    const server = await startServer({ env: { LAME_DUCK_MS: '500' } });
    const key = await server.firstKey();
    const clients = Array.from(Array(60), () => readUntilRefused(server.port, key));
    await sleep(500);
    const { code } = await server.end('SIGTERM');
    expect(new Set(await Promise.all(clients))).toEqual(new Set(['refused']));
    expect(code).toBe(0);
  }
});
