/** Tests that a server that stops under load resets no connection. */
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startServer } from '../../support/process.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

/** Reads pets over one connection at a time, which it closes when a response asks for it, until no more is accepted. Resolves to that error. */
function readUntilRefused(port: number, key: string, count: () => void): Promise<string> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const headers = { authorization: `Bearer ${key}` };
  return new Promise((resolve) => {
    const ask = () =>
      get({ port, host: '127.0.0.1', path: '/v1/pets?limit=20', agent, headers }, (response) => {
        response.resume();
        response.on('error', (error: NodeJS.ErrnoException) => resolve(`body: ${error.code}`));
        response.on('end', () => {
          count();
          setImmediate(ask);
        });
      }).on('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)));
    ask();
  });
}

test.for([0, 500])(
  'SIGTERM under load, with LAME_DUCK_MS=%d: every request is answered, and none is sent into a closed connection',
  { timeout: patientMs },
  async (lameDuckMs) => {
    for (let stops = 0; stops < tier(3, 10); stops++) {
      const server = await startServer({ env: { LAME_DUCK_MS: String(lameDuckMs) } });
      const key = await server.firstKey();
      let answered = 0;
      const clients = Array.from({ length: 60 }, () => readUntilRefused(server.port, key, () => (answered += 1)));
      await sleep(500);
      const { code } = await server.end('SIGTERM');
      expect(new Set(await Promise.all(clients))).toEqual(new Set(['ECONNREFUSED']));
      expect(code).toBe(0);
      figure(`a stop beside 60 clients without a pause, LAME_DUCK_MS ${lameDuckMs}: ${answered} answered, 0 reset`);
    }
  },
);
