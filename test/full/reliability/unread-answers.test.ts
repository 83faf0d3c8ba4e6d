/** Tests clients that do not read their responses: when they are disconnected, and how much memory they cost. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { openStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/store.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { type Server, startServer } from '../../support/process.ts';
import { converse, summaryOf } from '../../support/raw.ts';
import { makeStore } from '../../support/store-file.ts';
import { figure, tier } from '../../support/tier.ts';

const withinMs = 12_000;

const close = 'Connection: close\r\n';
const get = (key: string, target: string, more = '') =>
  `GET ${target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n${more}\r\n`;

/** Adds `count` pets of `bytes` each, as releases before the limit on names did. */
async function fill({ pets }: Store, bytes: number, count = 100): Promise<void> {
  const big = { name: 'x'.repeat(bytes), categoryId: 1n, status: 'sold' } as const;
  const additions = await Promise.all(Array.from({ length: count }, () => pets.add(big)));
  expect(additions.map(({ outcome }) => outcome)).toEqual(Array(count).fill('added'));
}

/** Starts a server on a store with such pets. */
async function startFilled(
  bytes: number,
  count?: number,
  more: Record<string, string> = {},
): Promise<{ server: Server; key: string }> {
  const { key, env } = await makeStore();
  const store = await openStore(env.DATABASE_URL, { now: () => new Date() });
  await fill(store, bytes, count);
  await store.close();
  return { server: await startServer({ env: { ...env, ...more } }), key };
}

/** A client that sends and never reads. */
async function sendOnly(port: number, requests: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').pause();
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  socket.write(requests);
  return socket;
}

/** Both ends of these clients' connections in /proc/net/tcp (proc(5)). `unread`: bytes received but not read, in hexadecimal. */
function connectionsOf(clients: Socket[]): { local: number; remote: number; unread: string }[] {
  const ports = new Set(clients.map(({ localPort }) => localPort as number));
  const row = /^ *\d+: (\w{8}:(\w{4}) \w{8}:(\w{4})) \w\w \w{8}:(\w{8}) /gm;
  // The kernel repeats a connection if another one comes or goes while it writes the table.
  const connections = new Map(
    [...readFileSync('/proc/net/tcp', 'utf8').matchAll(row)].map((found) => [found[1], found]),
  );
  return [...connections.values()]
    .map(([, , local, remote, unread]) => ({
      local: Number.parseInt(`${local}`, 16),
      remote: Number.parseInt(`${remote}`, 16),
      unread: `${unread}`,
    }))
    .filter(({ local, remote }) => ports.has(local) || ports.has(remote));
}

/** How many of these clients' connections still exist on the server's side, including those that only the kernel holds. */
function held(clients: Socket[], serverPort: number): number {
  // A client of another server may have the same local port.
  const own = clients.filter(({ remotePort }) => remotePort === serverPort);
  return connectionsOf(own).filter(({ local }) => local === serverPort).length;
}

/** Resolves when each of these clients has received something or has been disconnected. */
async function untilAnswered(clients: Socket[]): Promise<void> {
  const waits = ({ remote, unread }: { remote: number; unread: string }) => {
    return remote === clients[0]?.remotePort && /^0+$/.test(unread);
  };
  while (connectionsOf(clients).some(waits)) await sleep(50);
}

interface Reading {
  statuses: number[];
  bytes: number;
  ms: number;
}

/** Reads from `socket` until it is closed, `rate` bytes per millisecond. */
async function read(socket: Socket, rate = Infinity): Promise<Reading> {
  const begun = performance.now();
  const parts: Buffer[] = [];
  for await (const part of socket) {
    parts.push(part);
    if (rate < Infinity) await sleep(part.length / rate);
  }
  const text = Buffer.concat(parts).toString('latin1');
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  return { statuses, bytes: text.length, ms: performance.now() - begun };
}

/** Sends two requests on one connection, with more than 12 s between them. */
async function fallIdle(port: number, request: string): Promise<string> {
  const answers = await converse(port, [request, request], { answers: 2, gapMs: withinMs + 500, deadlineMs: 20_000 });
  return answers.map(summaryOf).join(', ');
}

/** Starts a server in this process. Its store takes 10 s to add a pet named slow, longer than a client may read nothing. */
async function startSlowApp(): Promise<TestApp> {
  const app = await startApp();
  const { add } = app.store.pets;
  app.store.pets.add = async (pet, retry) => {
    if (pet.name === 'slow') await sleep(10_000);
    return add(pet, retry);
  };
  return app;
}

/** Requests a page of 6 MB and adds a pet that the store adds slowly; begins to read after 2 s. */
async function readLate({ port, key }: TestApp): Promise<Reading> {
  const body = '{"name":"slow","categoryId":1}';
  const headers = `${close}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  const post = get(key, '/v1/pets', headers).replace('GET', 'POST');
  const socket = await sendOnly(port, get(key, '/v1/pets?limit=100') + post + body);
  await sleep(2000);
  return read(socket);
}

test('clients that read nothing are disconnected; slow readers and idle connections are not', async () => {
  // A page of them is larger than the socket buffers of the kernel.
  const { server, key } = await startFilled(60_000);
  const app = await startSlowApp();
  await fill(app.store, 60_000);
  // A page is cached at its second request. A cached one counts once, so no request of the test gets 503.
  for (const path of ['/v1/pets?limit=100', '/v1/pets?limit=10'].flatMap((path) => [path, path])) {
    expect((await app.call('GET', path)).status).toBe(200);
    expect((await server.call(key, 'GET', path)).status).toBe(200);
  }
  const page = get(key, '/v1/pets?limit=100');
  const slow = sendOnly(server.port, get(key, '/v1/pets?limit=100', close)).then((socket) => read(socket, 480));
  const late = readLate(app);
  const idle = fallIdle(server.port, get(key, '/v1/pets?limit=1'));

  const begun = performance.now();
  const kinds = [page, page.repeat(2000), get(key, '/v1/pets?limit=10').repeat(2000)];
  const clients = await Promise.all([
    ...Array.from({ length: tier(21, 210) }, (_, index) => sendOnly(server.port, kinds[index % 3] as string)),
    sendOnly(app.port, get(app.key, '/v1/pets?limit=100')),
  ]);
  const heldNow = () => held(clients, server.port) + held(clients, app.port);
  expect(heldNow()).toBe(clients.length);
  while (heldNow() > 0 && performance.now() - begun < 5 * withinMs) await sleep(100);
  const ms = performance.now() - begun;
  expect(heldNow()).toBe(0);

  const [slowReading, lateReading] = [await slow, await late];
  expect(slowReading.bytes).toBeGreaterThan(6_000_000);
  expect(slowReading.ms).toBeGreaterThan(withinMs);
  expect(lateReading).toMatchObject({ statuses: [200, 201] });
  expect(lateReading.bytes).toBeGreaterThan(6_000_000);
  expect(await idle).toBe('200, 200');
  figure(`${clients.length} clients that read nothing: the last was disconnected after ${(ms / 1000).toFixed(1)} s`);
  figure(`a client that took ${(slowReading.ms / 1000).toFixed(1)} s to read 6 MB received all of it`);
}, 60_000);

test('an idle connection is closed after the keep-alive timeout', async () => {
  const { app, port, key } = await startApp();
  app.server.keepAliveTimeout = 200;
  const socket = await sendOnly(port, get(key, '/v1/pets'));
  expect(await read(socket)).toMatchObject({ statuses: [200] });
});

test('503 service_unavailable for whoever has half of 32 MiB of unread responses; others are served', async () => {
  const { port, key, store, call, newKey } = await startApp();
  await fill(store, 60_000);
  await store.accounts.addAccount('other');
  const other = await newKey({ account: 'other' });
  const clients = await Promise.all(
    [99, 98, 97].map((limit) => sendOnly(port, get(key, `/v1/pets?limit=${limit}`, close))),
  );
  await untilAnswered(clients);
  expect(await call('GET', '/v1/pets?limit=96')).toMatchObject({
    status: 503,
    headers: { 'retry-after': '1', connection: 'close' },
    json: { code: 'service_unavailable' },
  });
  expect((await call('GET', '/v1/pets?limit=1')).status).toBe(200);
  expect((await call('GET', '/v1/pets?limit=96', { key: other.key })).status).toBe(200);
  for (const { statuses } of await Promise.all(clients.map((socket) => read(socket)))) expect(statuses).toEqual([200]);
  expect((await call('GET', '/v1/pets?limit=96')).status).toBe(200);
});

const memoryMB = ({ pid }: Server) =>
  Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1000);

/** Memory in MB before and at most with 50 such connections, and the time in milliseconds of another client's request meanwhile. */
async function flood(): Promise<{ before: number; most: number; ms: number }> {
  // Without limits V8 uses the memory of the machine before it collects garbage: these are the limits of a small container.
  const smallHeap = { NODE_OPTIONS: '--max-semi-space-size=16 --max-old-space-size=160' };
  const { server, key } = await startFilled(10_000, 200, smallHeap);
  // 100 different pages, so that the connections hardly share cached ones.
  const ask = (after: number, headers?: string) => {
    const cursor = Buffer.from(`after:${after}`).toString('base64url');
    return get(key, `/v1/pets?limit=99&cursor=${cursor}`, headers);
  };
  const requests = Array.from({ length: 100 }, (_, index) => ask(index + 1));
  // Measures memory after clients have read such pages, so that only the cost of unread ones is counted.
  for (let after = 1; after <= 100; after++) await read(await sendOnly(server.port, ask(after, close)));
  const before = memoryMB(server);
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, memoryMB(server));
  }, 20);
  onTestFinished(() => clearInterval(watch));
  const clients = Array.from({ length: 50 }, (_, first) => {
    const pipeline = Array.from({ length: 2000 }, (_, index) => requests[(2 * first + index) % 100]);
    return sendOnly(server.port, pipeline.join(''));
  });
  await untilAnswered(await Promise.all(clients));
  const begun = performance.now();
  expect((await server.call(key, 'GET', '/v1/pets/1')).status).toBe(200);
  return { before, most, ms: Math.round(performance.now() - begun) };
}

test('50 connections with 2,000 unread pipelined requests for large pages each cost less than 150 MB, and others are served', async () => {
  // Their first packets alone take a second to process, and three seconds on a busy machine.
  const { before, most, ms } = await flood();
  figure(
    `50 connections x 2,000 unread requests for pages of 1 MB: ${most - before} MB more than the ${before} MB before; another client's GET took ${ms} ms`,
  );
  expect(ms).toBeLessThan(20_000);
  expect(most - before).toBeLessThan(150);
}, 60_000);
