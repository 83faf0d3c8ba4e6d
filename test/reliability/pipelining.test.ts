import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startApp } from '../support/app.ts';
import { startServer } from '../support/process.ts';

test('200 pipelined requests on one socket are all answered, in their order', async () => {
  const { add, port, key } = await startApp();
  for (let id = 1; id <= 3; id++) await add({ name: `pet ${id}`, categoryId: id });
  const socket = connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const ids = Array.from({ length: 200 }, (_, index) => 1 + (index % 3));
  const last = 'Connection: close\r\n';
  const requests = ids.map((id, index) => {
    return `GET /v1/pets/${id} HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer ${key}\r\n${index === 199 ? last : ''}\r\n`;
  });
  socket.write(requests.join(''));
  let text = '';
  for await (const chunk of socket) text += chunk;
  expect([...text.matchAll(/"name":"pet (\d)"/g)].map(([, id]) => Number(id))).toEqual(ids);
});

test('what a client pipelined before it went away is not worked on', async () => {
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

test('20 sockets that pipeline 400 requests for large pages each, and read none, cost less than 150 MB', async () => {
  const server = await startServer();
  const key = await server.firstKey();
  const big = { name: 'x'.repeat(30_000), categoryId: 1 };
  await Promise.all(Array.from({ length: 100 }, () => server.call(key, 'POST', '/v1/pets', big)));
  const memoryMB = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1000;
  const before = memoryMB();
  const sockets = Array.from({ length: 20 }, () => connect(server.port, '127.0.0.1').pause());
  for (const socket of sockets) {
    socket.on('error', () => undefined);
    for (let index = 0; index < 400; index++) {
      const limit = 41 + (index % 60);
      socket.write(`GET /v1/pets?limit=${limit} HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    }
  }
  let most = 0;
  for (let tenth = 0; tenth < 30; tenth++) {
    await setTimeout(100);
    most = Math.max(most, memoryMB() - before);
  }
  // Others are served meanwhile.
  expect((await server.call(key, 'GET', '/v1/pets?limit=1')).status).toBe(200);
  for (const socket of sockets) socket.destroy();
  expect(most).toBeLessThan(150);
}, 60_000);
