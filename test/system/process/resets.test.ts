/** Tests clients that reset their connections at any moment: the server must give back every place that they took. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { metricValue, startApp, type TestApp } from '../../support/app.ts';
import { seededRandom } from '../../support/random.ts';
import { rawGet, rawPost } from '../../support/raw.ts';
import { tier } from '../../support/tier.ts';

const resets = tier(5000, 40_000);
const atOnce = 100;

/** Requests of every kind; the last one is incomplete. */
function requestsTo({ key }: TestApp): string[] {
  const post = rawPost(key, '{"name":"x","categoryId":1}');
  const get = (path: string) => rawGet(key, path);
  const document = get('/openapi.json');
  return [
    ...['/v1/pets?limit=100', '/v1/pets?limit=99', '/v1/pets/999999'].map(get),
    'GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n',
    document,
    `${document}CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n`,
    get('/v1/pets?limit=1').repeat(20),
    post,
    post.repeat(3),
    post.slice(0, -5),
  ];
}

/** Sends a request or a part of it, and resets the connection at a random moment or when the response begins. */
async function resetOne(port: number, request: string, random: () => number): Promise<void> {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  const whole = random() < 0.7;
  socket.write(whole ? request : request.slice(0, 1 + Math.floor(random() * request.length)));
  if (random() < 0.3) socket.once('data', () => socket.resetAndDestroy());
  setTimeout(() => socket.resetAndDestroy(), random() * 12);
  await once(socket, 'close');
}

test(`after ${resets} resets at random moments the server holds nothing, and serves every request`, async () => {
  const app = await startApp({ limits: { inFlight: 300 } });
  const { pets } = app.store;
  for (let count = 0; count < 100; count++)
    await pets.add({ name: 'x'.repeat(20_000), categoryId: 1n, status: 'sold' });
  const random = seededRandom(7);
  const { list, find, add } = pets;
  /** Delays some calls at random, as a busy store would. */
  const later = async <Result>(act: () => Result | Promise<Result>, share = 0.5) => {
    if (random() < share) await sleep(random() * 4);
    return act();
  };
  pets.list = (query) => later(() => list(query));
  pets.find = (id) => later(() => find(id));
  pets.add = (...input) => later(() => add(...input), 1);
  const requests = requestsTo(app);
  const draw = () => requests[Math.floor(random() * requests.length)] as string;
  let most = 0;
  for (let done = 0; done < resets; done += atOnce) {
    const clients = Array.from(Array(atOnce), () => resetOne(app.port, draw(), random));
    most = Math.max(most, (await metricValue(app.metrics, 'in_flight')) as number);
    await Promise.all(clients);
  }
  Object.assign(pets, { list, find, add });
  // Proves that the check below can fail: the server did hold something.
  expect(most).toBeGreaterThan(0);
  for (const name of ['in_flight', 'connections'])
    await expect.poll(() => metricValue(app.metrics, name), { timeout: 30_000, interval: 100 }).toBe(0);
  expect((await app.get('/v1/pets?limit=100')).status).toBe(200);
  expect((await app.add({ name: 'after', categoryId: 1 })).status).toBe(201);
  expect(app.log()).not.toMatch(/"level":[456]0/);
});
