/** Tests clients that send requests before they have received the responses to earlier ones. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startApp } from '../../support/app.ts';

test('pipelined requests of a client that has disconnected are not processed', async () => {
  const { port, key, store } = await startApp();
  const socket = connect(port, '127.0.0.1');
  const body = '{"name":"x","categoryId":1}';
  const headers = `Host: example.com\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  socket.once('data', () => socket.destroy());
  socket.write(`POST /v1/pets HTTP/1.1\r\n${headers}\r\n\r\n${body}`.repeat(100));
  await once(socket, 'close');
  await setTimeout(500);
  const { pets } = await store.pets.list({ limit: 100, after: 0n });
  expect(pets.length).toBeGreaterThan(0);
  expect(pets.length).toBeLessThan(100);
});

test('too many queued requests: connections of the address that has most are reset, and other clients that pipeline 100 are served', async () => {
  const { port, key, store } = await startApp();
  const { add } = store.pets;
  const gate = Promise.withResolvers<void>();
  store.pets.add = (...input) => gate.promise.then(() => add(...input));
  const body = '{"name":"x","categoryId":1}';
  const headers = `Host: example.com\r\nAuthorization: Bearer ${key}\r\n`;
  const post = `POST /v1/pets HTTP/1.1\r\n${headers}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const list = `GET /v1/pets?limit=1 HTTP/1.1\r\n${headers}\r\n`;
  const last = list.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');

  let cut = 0;
  /** Sends a POST, which has to wait, and GETs after it. Returns the number of 2xx responses; undefined if it is disconnected. */
  async function answersTo(requests: number, localAddress: string): Promise<number | undefined> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.write(post + list.repeat(requests - 2) + last);
    try {
      return (await text(socket)).match(/HTTP\/1\.1 20[01] /g)?.length;
    } catch {
      cut += 1;
      return undefined;
    }
  }
  const modest = Array.from({ length: 10 }, () => answersTo(100, '127.0.0.1'));
  const greedy = Array.from({ length: 20 }, () => answersTo(450, '127.0.0.9'));
  for (let seen = -1; cut === 0 || seen < cut; await setTimeout(500)) seen = cut;
  gate.resolve();
  expect(await Promise.all(modest)).toEqual(Array(10).fill(100));
  const answered = (await Promise.all(greedy)).filter((answers) => answers !== undefined);
  expect(answered).toEqual(answered.map(() => 450));
  // The server queues 8,192 requests in all, and half of those that are free for one address.
  expect(answered.length).toBeGreaterThan(5);
  expect(answered.length).toBeLessThan(20);
  expect(await answersTo(450, '127.0.0.9')).toBe(450);
});

test('CONNECT after a large response: a client that reads gets all of it and a 405; a client that does not read is disconnected', async () => {
  const { port } = await startApp({ readFile: async () => Buffer.alloc(5_000_000, 'x') });
  const sent = 'GET /docs/page.js HTTP/1.1\r\nHost: a\r\n\r\nCONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n';
  const unread = connect(port, '127.0.0.1').on('error', () => undefined);
  onTestFinished(() => void unread.destroy());
  unread.pause().write(sent);
  const cut = new Promise((resolve) => unread.once('close', resolve));
  const reader = connect(port, '127.0.0.1');
  reader.write(sent);
  const answered = await text(reader);
  expect(answered).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(answered.length).toBeGreaterThan(4_000_000);
  expect(answered).toMatch(/HTTP\/1\.1 405 Method Not Allowed\r\n.*"code":"method_not_allowed".*$/s);
  // The client notices a reset only when it reads.
  await setTimeout(10_000);
  unread.resume();
  await cut;
}, 60_000);
