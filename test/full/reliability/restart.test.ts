/** Tests rolling restarts under load, with clients that follow /readyz as a load balancer does. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { type Server, startServer } from '../../support/process.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

const lameDuckMs = 500;
const probeEveryMs = 50;

/** Pause between a client's requests, which leaves CPU time for starting servers and for the probes. */
const pauseMs = 5;

interface Backend {
  server: Server;
  ready: boolean;
}

async function isReady({ server }: Backend): Promise<boolean> {
  return fetch(`${server.opsUrl()}/readyz`).then(
    ({ status }) => status === 200,
    () => false,
  );
}

test(
  'restarts under load fail no request of clients that follow /readyz, and each exits with 0',
  async () => {
    const restarts = tier(20, 100);
    const folder = temporaryFolder();
    const start = () => startServer({ folder, env: { LAME_DUCK_MS: String(lameDuckMs) } });
    const first = await start();
    const key = await first.firstKey();
    const backends: Backend[] = [
      { server: first, ready: true },
      { server: await start(), ready: true },
    ];
    let running = true;
    const counts = { reads: 0, writes: 0 };
    const failures: string[] = [];

    async function probe(): Promise<void> {
      while (running) {
        for (const backend of backends) backend.ready = await isReady(backend);
        await sleep(probeEveryMs);
      }
    }

    async function client(index: number): Promise<void> {
      for (let turn = index; running; turn++) {
        await sleep(pauseMs);
        const open = backends.filter(({ ready }) => ready);
        const { server } = open[turn % open.length] as Backend;
        const writing = turn % 4 === 0;
        const call = writing
          ? server.call(key, 'POST', '/v1/pets', { name: `pet ${turn}`, categoryId: index })
          : server.call(key, 'GET', '/v1/pets?limit=5');
        const status = await call.then(
          (answer) => answer.status,
          (error: Error) => `${error.message}: ${error.cause}`,
        );
        if (status === (writing ? 201 : 200)) counts[writing ? 'writes' : 'reads'] += 1;
        else failures.push(`${writing ? 'POST' : 'GET'} ${status}`);
      }
    }

    const load = [probe(), ...Array.from({ length: 8 }, (_, index) => client(index))];
    const ends: number[] = [];
    for (let restart = 0; restart < restarts; restart++) {
      const backend = backends[restart % 2] as Backend;
      const begun = performance.now();
      const { code } = await backend.server.end('SIGTERM');
      ends.push(performance.now() - begun);
      expect(code).toBe(0);
      backend.server = await start();
      await expect.poll(() => backend.ready, { timeout: 5000 }).toBe(true);
    }
    running = false;
    await Promise.all(load);

    const slowest = Math.max(...ends);
    figure(
      `${restarts} restarts under load: ${counts.reads} reads and ${counts.writes} writes, ${failures.length} failed; slowest exit ${Math.round(slowest)} ms with a lame-duck time of ${lameDuckMs} ms`,
    );
    expect(failures).toEqual([]);
  },
  patientMs,
);
