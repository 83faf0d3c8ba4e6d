/** Tests clients that do not read their responses: when they are disconnected, and how much memory they cost. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import { startApp } from '../../support/app.ts';
import { openSocket } from '../../support/process.ts';
import { converse, rawGet, summaryOf } from '../../support/raw.ts';
import { addAccount, makeStore, serve } from '../../support/store-file.ts';
import { figure, tier } from '../../support/tier.ts';

const withinMs = 12_000;
const close = 'Connection: close\r\n';
const page = (key: string, limit: number, more?: string) => rawGet(key, `/v1/pets?limit=${limit}`, more);

/** Adds `count` pets of `bytes` each, as releases before the limit on names did. */
async function fill({ pets }: Store, bytes: number, count = 100): Promise<void> {
  const big = { name: 'x'.repeat(bytes), categoryId: 1n, status: 'sold' } as const;
  const additions = await Promise.all(Array.from(Array(count), () => pets.add(big)));
  expect(additions.map(({ outcome }) => outcome)).toEqual(Array(count).fill('added'));
}

/** A client that sends and does not read. */
async function sendOnly(port: number, requests: string): Promise<Socket> {
  const socket = (await openSocket(port)).pause();
  socket.write(requests);
  return socket;
}

interface Reading {
  statuses: number[];
  bytes: number;
  ms: number;
  /** Why the connection was closed before its end. */
  error?: string;
}

/** Reads from `socket` until it is closed, `rate` bytes per millisecond. */
async function read(socket: Socket, rate = Infinity): Promise<Reading> {
  const begun = performance.now();
  const parts: Buffer[] = [];
  let failure = {};
  try {
    for await (const part of socket) {
      parts.push(part);
      if (rate < Infinity) await sleep(part.length / rate);
    }
  } catch (error) {
    failure = { error: (error as NodeJS.ErrnoException).code };
  }
  const text = Buffer.concat(parts).toString('latin1');
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  return { statuses, bytes: text.length, ms: performance.now() - begun, ...failure };
}

test('clients that read nothing are disconnected; slow readers and idle connections are not', async () => {
  const { port, key, store, get } = await startApp();
  // A page of them is larger than the socket buffers of the kernel.
  await fill(store, 60_000);
  // A page is cached at its second request. A cached one counts once, so no request of the test gets 503.
  for (const limit of [100, 100, 10, 10]) expect((await get(`/v1/pets?limit=${limit}`)).status).toBe(200);
  const reading = sendOnly(port, page(key, 100, close)).then((socket) => read(socket, 480));
  const request = page(key, 1);
  const idle = converse(port, [request, request], { answers: 2, gapMs: withinMs + 500, deadlineMs: 20_000 });

  const kinds = [page(key, 100), page(key, 100).repeat(2000), page(key, 10).repeat(2000)];
  const clients = await Promise.all(
    Array.from(Array(tier(24, 240)), (_, index) => sendOnly(port, kinds[index % kinds.length] as string)),
  );
  await sleep(withinMs);
  // A client notices the reset only when it reads.
  const cut = await Promise.all(clients.map((socket) => read(socket)));
  expect(cut.filter(({ error }) => error !== 'ECONNRESET' && error !== 'EPIPE')).toEqual([]);

  const slow = await reading;
  expect(slow.statuses).toEqual([200]);
  expect(slow.bytes).toBeGreaterThan(6_000_000);
  expect(slow.ms).toBeGreaterThan(withinMs);
  expect((await idle).map(summaryOf)).toEqual(['200', '200']);
  figure('clients that read nothing', { disconnected: clients.length, withinMs, slowReaderMs: slow.ms });
});

test('503 service_unavailable for whoever has half of 32 MiB of unread responses; others are served', async () => {
  const { port, key, store, get } = await startApp();
  await fill(store, 60_000);
  const other = await addAccount(store, 'other');
  const clients = await Promise.all([99, 98, 97].map((limit) => sendOnly(port, page(key, limit, close))));
  await Promise.all(clients.map((socket) => once(socket, 'readable')));
  expect(await get('/v1/pets?limit=96')).toMatchObject({
    status: 503,
    headers: { 'retry-after': '1', connection: 'close' },
    json: { code: 'service_unavailable' },
  });
  expect((await get('/v1/pets?limit=1')).status).toBe(200);
  expect((await get('/v1/pets?limit=96', { key: other })).status).toBe(200);
  for (const { statuses } of await Promise.all(clients.map((socket) => read(socket)))) expect(statuses).toEqual([200]);
  expect((await get('/v1/pets?limit=96')).status).toBe(200);
});

test('50 connections with 2,000 unread pipelined requests each cost less than 150 MB, and others are served', async () => {
  const made = await makeStore(undefined, (store) => fill(store, 10_000, 200));
  // Without limits V8 uses the memory of the machine before it collects garbage: these are the limits of a small container.
  const env = { NODE_OPTIONS: '--max-semi-space-size=16 --max-old-space-size=160' };
  const { server, port, key, get } = await serve(made, 1, { env });
  const memoryMB = () =>
    Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1000);
  // 100 different pages, so that the connections hardly share cached ones.
  const ask = (after: number, more?: string) =>
    rawGet(key, `/v1/pets?limit=99&cursor=${Buffer.from(`after:${after}`).toString('base64url')}`, more);
  // Measures memory after clients have read such pages, so that only the cost of unread ones is counted.
  for (let after = 1; after <= 100; after++) await read(await sendOnly(port, ask(after, close)));
  const before = memoryMB();
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, memoryMB());
  }, 20);
  onTestFinished(() => clearInterval(watch));
  const clients = Array.from(Array(50), async (_, first) => {
    const pipeline = Array.from(Array(2000), (_, index) => ask(1 + ((2 * first + index) % 100)));
    // Most are reset, because too many requests wait.
    await once(await sendOnly(port, pipeline.join('')), 'readable').catch(() => {});
  });
  await Promise.all(clients);
  const begun = performance.now();
  // A busy server may respond 503 first.
  await expect.poll(async () => (await get('/v1/pets/1')).status, { timeout: 20_000 }).toBe(200);
  const ms = performance.now() - begun;
  figure('50 connections x 2,000 unread requests for pages of 1 MB', { before, most, othersMs: ms });
  // Their first packets alone take a second to process, and three seconds on a busy machine.
  expect(ms).toBeLessThan(20_000);
  expect(most - before).toBeLessThan(150);
});
