/** Tests clients that take as many resources as they can: others must still be served. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startApp } from '../../support/app.ts';
import { openClient, sideBySide } from '../../support/client.ts';
import { percentile } from '../../support/percentile.ts';
import { rawGet, rawPost } from '../../support/raw.ts';
import { addAccount, addKey, makeStore, serve } from '../../support/store-file.ts';
import { figure } from '../../support/tier.ts';

/** Opens connections that never read; `bytes`: what the connection of a number sends. */
async function openGreedy(port: number, count: number, bytes: (at: number) => string): Promise<Socket[]> {
  const sockets: Socket[] = [];
  onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
  while (sockets.length < count) {
    const some = Array.from(Array(100), () => connect(port, '127.0.0.1').on('error', () => {}));
    await Promise.all(some.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])));
    for (const [at, socket] of some.entries()) socket.pause().write(bytes(sockets.length + at));
    sockets.push(...some);
  }
  return sockets;
}

/** How long the main thread of this process has been ready to run while others had the CPUs, in milliseconds. */
// https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat
const waitedForCpuMs = (pid: number) => Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;

test.for<[what: string, count: number, keys: number, bytes: (key: string) => string]>([
  ['1,000 bodies of one key that never end', 1000, 1, (key) => rawPost(key, '{', 100)],
  ['2,500 bodies of 50 keys of an account that never end', 2500, 50, (key) => rawPost(key, '{', 100)],
  [
    '1,500 connections with 10 unread pipelined pages each, without a key',
    1500,
    1,
    () => 'GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(10),
  ],
])('%s do not keep others out', async ([what, count, keyCount, bytes]) => {
  const keys: string[] = [];
  let other = '';
  const made = await makeStore(undefined, async (store) => {
    other = await addAccount(store, 'others');
    while (keys.length < keyCount - 1) keys.push(await addKey(store.accounts, 'zoo'));
  });
  keys.push(made.key);
  const { server, port, url } = await serve(made, 1);
  const sockets = await openGreedy(port, count, (at) => bytes(keys[at % keyCount] as string));
  if (count === 1000) expect(sockets.filter(({ destroyed }) => !destroyed).length).toBeGreaterThan(900);

  const { get, add } = openClient(url, other, 8);
  // The times are without those that the server waited for a CPU, which other programs used.
  const now = () => performance.now() - waitedForCpuMs(server.pid);
  const times: number[] = [];
  let served = 0;
  const end = performance.now() + 4000;
  await sideBySide(8, async (index) => {
    for (; performance.now() < end; await sleep(5)) {
      const begun = now();
      const { status } = await (index % 2 ? add('x') : get('/v1/pets?limit=20'));
      times.push(now() - begun);
      if (status === 200 || status === 201) served += 1;
    }
  });
  const p99 = percentile(times, 99);
  const share = served / times.length;
  figure(what, { requestsOfOthers: times.length, servedPercent: share * 100, p99 });
  expect(share).toBeGreaterThanOrEqual(0.99);
  expect(p99).toBeLessThan(2500);
});

const post = (key: string) => rawPost(key, '{"name":"x","categoryId":1}');

test('pipelined requests of a client that has disconnected are not processed', async () => {
  const { port, key, store } = await startApp();
  const socket = connect(port, '127.0.0.1');
  socket.once('data', () => socket.destroy());
  socket.write(post(key).repeat(100));
  await once(socket, 'close', { signal: AbortSignal.timeout(10_000) });
  await sleep(500);
  const { pets } = await store.pets.list({ limit: 100, after: 0n });
  expect(pets.length).toBeGreaterThan(0);
  expect(pets.length).toBeLessThan(100);
});

test('a connection with more than 250 waiting requests is reset, and the rest of its packet is not read', async () => {
  const { port } = await startApp();
  let requests = 0;
  const count = () => {
    requests += 1;
  };
  subscribe('http.server.request.start', count);
  onTestFinished(() => void unsubscribe('http.server.request.start', count));
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2400));
  await once(socket, 'close').catch(() => {});
  expect(requests).toBe(252);
});

test('too many queued requests: connections of the address that has most are reset, and other clients that pipeline 100 are served', async () => {
  const { port, key, store } = await startApp();
  const { add } = store.pets;
  const gate = Promise.withResolvers<void>();
  store.pets.add = (...input) => gate.promise.then(() => add(...input));
  const list = (more?: string) => rawGet(key, '/v1/pets?limit=1', more);

  let cut = 0;
  /** Sends a POST, which has to wait, and GETs after it. Returns the number of 2xx responses; 0 if it is disconnected. */
  async function answersTo(requests: number, localAddress: string): Promise<number> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.write(post(key) + list().repeat(requests - 2) + list('Connection: close\r\n'));
    try {
      return (await text(socket)).split(/HTTP\/1\.1 20[01] /).length - 1;
    } catch {
      cut += 1;
      return 0;
    }
  }
  const modest = Array.from(Array(10), () => answersTo(100, '127.0.0.1'));
  const greedy = Array.from(Array(36), () => answersTo(250, '127.0.0.9'));
  for (let seen = -1; cut === 0 || seen < cut; await sleep(500)) seen = cut;
  gate.resolve();
  expect(await Promise.all(modest)).toEqual(Array(10).fill(100));
  // The server queues 8,192 requests in all, and half of those that are free for one address.
  expect(new Set(await Promise.all(greedy))).toEqual(new Set([250, 0]));
});
