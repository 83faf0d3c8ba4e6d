/** Restarts two servers behind the files of nginx in turn, under load: no read fails, and no create is sent twice. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { findPort } from '../../support/known-port.ts';
import { walk } from '../../support/links.ts';
import { name, needNginx, startNginx } from '../../support/nginx.ts';
import { type Server, startServer } from '../../support/process.ts';

beforeEach(needNginx);

test('two servers are restarted in turn under load', async () => {
  const folder = temporaryFolder();
  const ports = [await findPort(), await findPort()];
  const env = { BASE_URL: `https://${name}/v1`, TRUST_PROXY: '127.0.0.1', LAME_DUCK_MS: '500' };
  const start = (at: number) => startServer({ folder, env: { ...env, PORT: String(ports[at]) } });
  const servers: Server[] = [await start(0)];
  const { firstKey } = servers[0] as Server;
  const key = await firstKey();
  servers.push(await start(1));
  const { https, ca, errorLog, accessLog } = await startNginx(ports);

  const acknowledged: string[] = [];
  const failedReads: number[] = [];
  const failedCreates = new Map<string, number>();
  let stopped = false;
  /** A client with an address of its own, because each may send 500 requests a second. */
  async function load(localAddress: string, creates: boolean) {
    const dispatcher = new Agent({ allowH2: false, localAddress, connect: { ca, servername: name } });
    onTestFinished(() => {
      stopped = true;
      return dispatcher.close();
    });
    while (!stopped) {
      const pet = randomUUID();
      const { statusCode, body } = await request(`https://127.0.0.1:${https}/v1/pets`, {
        ...(creates ? { method: 'POST', body: JSON.stringify({ name: pet, categoryId: 1 }) } : { query: { limit: 1 } }),
        headers: { host: name, authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        dispatcher,
      });
      await body.text();
      if (statusCode === 201) acknowledged.push(pet);
      else if (creates) failedCreates.set(pet, statusCode);
      else if (statusCode !== 200) failedReads.push(statusCode);
      await sleep(4);
    }
  }
  const clients = Array.from(Array(16), (_, at) => load(`127.0.2.${at + 1}`, at % 2 === 0));
  for (let at = 0; at < 4; at++) {
    const before = acknowledged.length;
    expect((await servers[at % 2]?.end('SIGTERM'))?.code).toBe(0);
    // The other one serves.
    await expect.poll(() => acknowledged.length).toBeGreaterThan(before);
    servers[at % 2] = await start(at % 2);
  }
  stopped = true;
  await Promise.all(clients);
  expect(failedReads).toEqual([]);
  const { names } = await walk(servers[0] as Server, key);
  expect(new Set(names).size).toBe(names.length);
  expect(names.filter((pet) => !failedCreates.has(pet)).toSorted()).toEqual(acknowledged.toSorted());
  // One that is on its way to a connection that the server closes cannot be sent again.
  expect([...failedCreates.values()].filter((status) => status !== 503)).toEqual([]);
  expect(failedCreates.size).toBeLessThan(acknowledged.length / 1000);
  // A stopped server refused requests, and the other got them; none of that is an error.
  expect(accessLog()).toContain(`, 127.0.0.1:${ports[0]} 502, 20`);
  expect(errorLog()).toBe('');
});
