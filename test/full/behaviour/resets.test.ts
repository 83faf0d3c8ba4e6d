/** Tests clients that reset their connections at any moment: the server must give back every place that they took. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { createMetrics, type Metrics } from '../../../src/http/metrics.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { seededRandom } from '../../support/random.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

const resets = tier(5000, 40_000);
const atOnce = 100;

async function heldBy({ registry }: Metrics): Promise<Record<string, number>> {
  const found = await registry.getSingleMetric('animal_store_held')?.get();
  return Object.fromEntries((found?.values ?? []).map(({ labels, value }) => [labels.what, value]));
}

/** Delays some calls to the store at random, as a busy store would. */
function slowDown({ store: { pets } }: TestApp, random: () => number): void {
  const { list, find, add } = pets;
  const later = async <Result>(act: () => Result | Promise<Result>) => {
    await sleep(random() * 4);
    return act();
  };
  pets.list = (query) => (random() < 0.5 ? list(query) : later(() => list(query)));
  pets.find = (id) => (random() < 0.5 ? find(id) : later(() => find(id)));
  pets.add = (...input) => later(() => add(...input));
}

/** Requests of every kind; the last one is incomplete. */
function requestsTo({ key }: TestApp): string[] {
  const headers = `Host: animals.example\r\nAuthorization: Bearer ${key}\r\n`;
  const body = '{"name":"x","categoryId":1}';
  const post = `POST /v1/pets HTTP/1.1\r\n${headers}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  return [
    `GET /v1/pets?limit=100 HTTP/1.1\r\n${headers}\r\n`,
    `GET /v1/pets?limit=99 HTTP/1.1\r\n${headers}\r\n`,
    `GET /v1/pets/999999 HTTP/1.1\r\n${headers}\r\n`,
    'GET /v1/pets HTTP/1.1\r\nHost: animals.example\r\n\r\n',
    'GET /openapi.json HTTP/1.1\r\nHost: animals.example\r\n\r\n',
    'GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\nCONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n',
    `GET /v1/pets?limit=1 HTTP/1.1\r\n${headers}\r\n`.repeat(20),
    post,
    post.repeat(3),
    post.slice(0, -5),
  ];
}

/** Sends a request or a part of it, and resets the connection at a random moment or when the response begins. */
async function resetOne(port: number, request: string, random: () => number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const whole = random() < 0.7;
  socket.write(whole ? request : request.slice(0, 1 + Math.floor(random() * request.length)));
  if (random() < 0.3) socket.once('data', () => socket.resetAndDestroy());
  setTimeout(() => socket.resetAndDestroy(), random() * 12);
  await closed;
}

test(
  `after ${resets} resets at random moments the server holds nothing, and serves every request`,
  async () => {
    const metrics = createMetrics('test');
    const app = await startApp({ metrics, bounds: { work: 300, bodies: 300, rejectedKeys: 1_000_000 } });
    for (let count = 0; count < 100; count++)
      await app.store.pets.add({ name: 'x'.repeat(20_000), categoryId: 1n, status: 'sold' });
    const random = seededRandom(7);
    const { list, find, add } = app.store.pets;
    slowDown(app, random);
    const requests = requestsTo(app);
    const draw = () => requests[Math.floor(random() * requests.length)] as string;
    let most = 0;
    for (let done = 0; done < resets; done += atOnce) {
      const clients = Array.from({ length: atOnce }, () => resetOne(app.port, draw(), random));
      most = Math.max(most, (await heldBy(metrics)).requests as number);
      await Promise.all(clients);
    }
    Object.assign(app.store.pets, { list, find, add });
    // Proves that the check below can fail: the server did hold something.
    expect(most).toBeGreaterThan(0);
    const none = { requests: 0, work: 0, bodies: 0, unread_bytes: 0, connections: 0, pipelined: 0 };
    await vi.waitFor(async () => expect(await heldBy(metrics)).toEqual(none), { timeout: 30_000, interval: 100 });
    for (let count = 0; count < 200; count++) {
      expect((await app.call('GET', `/v1/pets?limit=${100 - (count % 3)}`)).status).toBe(200);
      expect((await app.call('GET', '/v1/pets/1')).status).toBe(200);
    }
    expect((await app.add({ name: 'after', categoryId: 1 })).status).toBe(201);
    figure(`${resets} connections reset at random moments: every count is back to 0`);
  },
  patientMs,
);
