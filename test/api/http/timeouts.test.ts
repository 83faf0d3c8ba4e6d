/** Tests the times that a connection has: for a request, without a byte of a response, and between two requests. */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { startApp, type TestApp } from '../../support/app.ts';
import { openSocket } from '../../support/process.ts';
import { rawGet, rawPost } from '../../support/raw.ts';
import { pet } from './requests.ts';

/** Opens a connection, and resolves when the server has closed it: to the milliseconds since the time that the result of `act` returns then. */
async function openFor({ app, port }: TestApp, act: (socket: Socket) => Promise<() => number>): Promise<number> {
  const accepted = once(app.server, 'connection') as Promise<[Socket]>;
  const socket = await openSocket(port);
  const [onServer] = await accepted;
  const closed = once(onServer, 'close').catch(() => undefined);
  const begun = await act(socket);
  await closed;
  return performance.now() - begun();
}

test.for<[what: string, sent: (key: string) => string, status: string]>([
  ['nothing', () => '', '408'],
  ['a part of the headers', (key) => rawGet(key, '/v1/pets').slice(0, -2), '408'],
  ['a part of the body', (key) => rawPost(key, pet).slice(0, -2), '408'],
])('%s of a request gets 408 when its time is over', async ([, sent, statuses]) => {
  const server = await startApp({ limits: { requestMs: 1000 } });
  const socket = await openSocket(server.port, { allowHalfOpen: true });
  const begun = performance.now();
  socket.write(sent(server.key));
  const all = await text(socket);
  expect([...all.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status).join(' ')).toBe(statuses);
  expect(performance.now() - begun).toBeGreaterThan(950);
});

test('an idle connection closes, after a response as after a 304 and an error', async () => {
  const server = await startApp({ limits: { keepAliveMs: 500 } });
  const more = ['', 'If-None-Match: *\r\n', 'If-Match: "a"\r\n'];
  for (const request of [...more.map((line) => rawGet(server.key, '/v1/pets', line)), rawPost(server.key, pet)]) {
    const ms = await openFor(server, async (socket) => {
      socket.write(request);
      await once(socket, 'data');
      const answered = performance.now();
      return () => answered;
    });
    expect(ms, request).toBeGreaterThan(450);
    // Node waits a second longer than the header says.
    expect(ms, request).toBeLessThan(5000);
  }
});

test.for([14, 100])('a client that reads nothing of responses of %i KiB is cut off in time', async (kibibytes) => {
  const silenceMs = 3000;
  const server = await startApp({ limits: { silenceMs } });
  const names = Array.from(Array(kibibytes), (_, at) => `${at}`.padEnd(980, 'x'));
  for (const name of names) await server.add({ name, categoryId: 1 });
  const request = rawGet(server.key, `/v1/pets?limit=${kibibytes}`);
  const responses = () => server.logged('"msg":"request"').length - names.length;
  let begun = 0;
  const ms = await openFor(server, async (socket) => {
    socket.pause();
    let [sent, seen] = [0, 0];
    // Until the buffers of the kernel are full, and the connection is cut off.
    const feeding = setInterval(() => {
      if (responses() === sent) {
        sent += 1;
        socket.write(request);
      } else if (responses() === seen) return;
      seen = responses();
      begun = performance.now();
    }, 2);
    socket.once('close', () => clearInterval(feeding)).on('error', () => clearInterval(feeding));
    onTestFinished(() => clearInterval(feeding));
    return () => begun;
  });
  expect(ms).toBeGreaterThan(0.4 * silenceMs);
  expect(ms).toBeLessThan(1.6 * silenceMs);
});
