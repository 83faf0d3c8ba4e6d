/** Clients that take nothing of their answers: how long they are kept, and what they cost. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startApp, type TestApp } from '../support/app.ts';
import { type Server, startServer } from '../support/process.ts';
import { converse, summaryOf } from '../support/raw.ts';
import { figure, tier } from '../support/tier.ts';
import { undisturbed } from '../support/undisturbed.ts';

const withinMs = 12_000;

const close = 'Connection: close\r\n';
const get = (key: string, target: string, more = '') =>
  `GET ${target} HTTP/1.1\r\nHost: animals.example\r\nAuthorization: Bearer ${key}\r\n${more}\r\n`;

/** Adds 100 animals of `bytes` each. */
async function fill(bytes: number, add: (pet: object) => Promise<{ status: number }>): Promise<void> {
  const big = { name: 'x'.repeat(bytes), categoryId: 1 };
  const answers = await Promise.all(Array.from({ length: 100 }, () => add(big)));
  expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(201));
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

/** The kernel's view of these clients' connections, from both ends: bytes sent and not taken, in hexadecimal (proc(5), /proc/net/tcp). */
function connectionsOf(clients: Socket[]): { local: number; remote: number; unread: string }[] {
  const ports = new Set(clients.map(({ localPort }) => localPort as number));
  const row = /^ *\d+: \w{8}:(\w{4}) \w{8}:(\w{4}) \w\w \w{8}:(\w{8}) /gm;
  return [...readFileSync('/proc/net/tcp', 'utf8').matchAll(row)]
    .map(([, local, remote, unread]) => ({
      local: Number.parseInt(`${local}`, 16),
      remote: Number.parseInt(`${remote}`, 16),
      unread: `${unread}`,
    }))
    .filter(({ local, remote }) => ports.has(local) || ports.has(remote));
}

/** How many of these clients the server still holds a connection for, be it only in the kernel. */
function held(clients: Socket[], serverPort: number): number {
  // Another server's client may have the same port: it is one for each pair.
  const own = clients.filter(({ remotePort }) => remotePort === serverPort);
  return connectionsOf(own).filter(({ local }) => local === serverPort).length;
}

/** Resolves when each of these clients has been sent something, or been cut off. */
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

/** Takes from `socket` what comes until it is closed: `rate` bytes a millisecond. */
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

/** Two requests on one socket, with more than 12 s of silence between them. */
async function fallIdle(port: number, request: string): Promise<string> {
  const answers = await converse(port, [request, request], { answers: 2, gapMs: withinMs + 500, deadlineMs: 20_000 });
  return answers.map(summaryOf).join(', ');
}

/** This process as a server whose store takes longer to add an animal called slow than a client may take nothing. */
async function startSlowApp(): Promise<TestApp> {
  const app = await startApp();
  const { add } = app.store.pets;
  app.store.pets.add = async (pet, retry) => {
    if (pet.name === 'slow') await sleep(10_000);
    return add(pet, retry);
  };
  return app;
}

/** Asks for a page of 6 MB, takes it late, and meanwhile adds an animal that the store is slow to add. */
async function readLate({ port, key }: TestApp): Promise<Reading> {
  const body = '{"name":"slow","categoryId":1}';
  const headers = `${close}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  const post = get(key, '/v1/pets', headers).replace('GET', 'POST');
  const socket = await sendOnly(port, get(key, '/v1/pets?limit=100') + post + body);
  await sleep(2000);
  return read(socket);
}

test('clients that take nothing of their answers are cut off within 12 s; slow readers and idle sockets are not', async () => {
  const server = await startServer();
  const key = await server.firstKey();
  const app = await startSlowApp();
  // A page of them is more than the kernel takes.
  await fill(60_000, (pet) => server.call(key, 'POST', '/v1/pets', pet));
  await fill(60_000, app.add);
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
  while (heldNow() > 0 && performance.now() - begun < withinMs) await sleep(100);
  const ms = performance.now() - begun;
  expect(heldNow()).toBe(0);

  const [slowReading, lateReading] = [await slow, await late];
  expect(slowReading.bytes).toBeGreaterThan(6_000_000);
  expect(slowReading.ms).toBeGreaterThan(withinMs);
  expect(lateReading).toMatchObject({ statuses: [200, 201] });
  expect(lateReading.bytes).toBeGreaterThan(6_000_000);
  expect(await idle).toBe('200, 200');
  figure(`${clients.length} clients that read nothing: the last was cut off after ${(ms / 1000).toFixed(1)} s`);
  figure(`a client that took ${(slowReading.ms / 1000).toFixed(1)} s to read 6 MB had all of it`);
}, 60_000);

test('an idle socket is closed at the end of its time', async () => {
  const { app, port, key } = await startApp();
  app.server.keepAliveTimeout = 200;
  const socket = await sendOnly(port, get(key, '/v1/pets'));
  expect(await read(socket)).toMatchObject({ statuses: [200] });
});

test('503 service_unavailable where clients hold more than 32 MiB that they have not read, until they have', async () => {
  const { port, key, add, call } = await startApp();
  await fill(60_000, add);
  const ask = (limit: number) => sendOnly(port, get(key, `/v1/pets?limit=${limit}`, close));
  // One page that is kept, and so held once for all, and four that are not.
  const clients = await Promise.all([100, 100, 100, 99, 98, 97].map(ask));
  await untilAnswered(clients);
  const { etag } = (await call('HEAD', '/v1/pets?limit=20')).headers;
  const refused = { status: 503, headers: { 'retry-after': '1' }, json: { code: 'service_unavailable' } };
  expect(await call('GET', '/v1/pets?limit=96')).toMatchObject(refused);
  expect(await call('GET', '/v1/pets?limit=96', { headers: { 'if-none-match': '"other"' } })).toMatchObject(refused);
  // What is small, or known, or held already, is no question.
  expect((await call('GET', '/v1/pets?limit=1')).status).toBe(200);
  expect((await call('GET', '/v1/pets?limit=20', { headers: { 'if-none-match': etag as string } })).status).toBe(304);
  for (const { statuses, bytes } of await Promise.all(clients.map((socket) => read(socket)))) {
    expect(statuses).toEqual([200]);
    expect(bytes).toBeGreaterThan(97 * 60_000);
  }
  expect((await call('GET', '/v1/pets?limit=96')).status).toBe(200);
});

const memoryMB = ({ pid }: Server) =>
  Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1000);

/** What 50 such sockets cost in memory, and how long another's request takes meanwhile. */
async function flood(): Promise<{ before: number; most: number; ms: number }> {
  // V8 takes what the machine has before it collects any garbage: these are limits as a small container sets them.
  const server = await startServer({ env: { NODE_OPTIONS: '--max-semi-space-size=16 --max-old-space-size=160' } });
  const key = await server.firstKey();
  const add = (pet: object) => server.call(key, 'POST', '/v1/pets', pet);
  await fill(10_000, add);
  await fill(10_000, add);
  // 100 pages, so that the sockets do not share them for long.
  const ask = (after: number, headers?: string) => {
    const cursor = Buffer.from(`after:${after}`).toString('base64url');
    return get(key, `/v1/pets?limit=99&cursor=${cursor}`, headers);
  };
  const requests = Array.from({ length: 100 }, (_, index) => ask(index + 1));
  // What such pages cost where they are read: the rest is what not reading them costs.
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

test('50 sockets that pipeline 2,000 requests for large pages each, and read none, cost less than 150 MB, and stop nobody', async () => {
  // Their first packets alone are a second of work: with a busy machine's share of a processor, it would be three.
  const { before, most, ms } = await undisturbed(flood);
  figure(
    `50 sockets x 2,000 unread requests for pages of 1 MB: ${most - before} MB more than the ${before} MB before; another's GET took ${ms} ms`,
  );
  expect(ms).toBeLessThan(2000);
  expect(most - before).toBeLessThan(150);
}, 60_000);
