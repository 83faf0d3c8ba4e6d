/** Tests the times that a connection has: for a request, without a byte of a response, and between two requests. */
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { codeOf } from '../../../src/core/errors.ts';
import { startApp } from '../../support/app.ts';
import { openSocket } from '../../support/process.ts';
import { rawGet, rawPost } from '../../support/raw.ts';
import { addLong, pet, statusesOf } from './requests.ts';

test('a request without an end gets 408 when its time is over', async () => {
  const server = await startApp({ limits: { requestMs: 1000 } });
  const begun = performance.now();
  const parts = ['', rawGet(server.key, '/v1/pets').slice(0, -2), rawPost(server.key, pet).slice(0, -2)];
  await Promise.all(
    parts.map(async (sent) => {
      const socket = await openSocket(server.port, { allowHalfOpen: true });
      socket.write(sent);
      const statuses = [...(await text(socket)).matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
      expect(statuses, sent).toEqual(['408']);
      expect(performance.now() - begun, sent).toBeGreaterThan(950);
    }),
  );
});

test('an idle connection closes, after a response as after a 304 and an error', async () => {
  const { port, key } = await startApp({ limits: { keepAliveMs: 500 } });
  const more = ['', 'If-None-Match: *\r\n', 'If-Match: "a"\r\n'];
  const requests = [...more.map((line) => rawGet(key, '/v1/pets', line)), rawPost(key, pet)];
  await Promise.all(
    requests.map(async (request) => {
      const socket = await openSocket(port);
      socket.write(request);
      await once(socket, 'data');
      const answered = performance.now();
      await once(socket, 'close');
      const ms = performance.now() - answered;
      expect(ms, request).toBeGreaterThan(450);
      // Node waits a second longer than the header says.
      expect(ms, request).toBeLessThan(5000);
    }),
  );
});

test('a client that reads nothing is reset; one that reads slowly and an idle one are not', async () => {
  const silenceMs = 1500;
  const { port, key, store } = await startApp({ limits: { silenceMs, inFlight: 3000 } });
  await addLong(store);
  // On a busy machine, PostgreSQL may take longer for 20 MB than the server is silent.
  const page = await store.pets.list({ limit: 100, after: 0n });
  store.pets.list = async () => page;
  const one = rawGet(key, '/v1/pets?limit=100');
  const [deaf, slow, idle] = await Promise.all([openSocket(port), openSocket(port), openSocket(port)]);
  const ended = new Promise((resolve) =>
    deaf.on('error', (error) => resolve(codeOf(error))).on('close', () => resolve('closed')),
  );
  deaf.pause().write(one);
  slow.write(one.replace(/\r\n\r\n$/, '\r\nConnection: close\r\n\r\n'));
  idle.write(rawGet(key, '/v1/pets/999'));
  const answers: Buffer[] = [];
  idle.on('data', (part: Buffer) => answers.push(part));
  const statuses = () => statusesOf(Buffer.concat(answers).toString());
  await expect.poll(statuses).toEqual([404]);
  let bytes = 0;
  for await (const part of slow) {
    bytes += part.length;
    await sleep(part.length / 20_000);
  }
  // 16 million bytes, at most 20 MB a second.
  expect(bytes).toBeGreaterThan(16_000_000);
  await sleep(1.5 * silenceMs);
  deaf.resume();
  expect(await ended).toBe('ECONNRESET');
  idle.write(rawGet(key, '/v1/pets/999'));
  await expect.poll(statuses).toEqual([404, 404]);
});
