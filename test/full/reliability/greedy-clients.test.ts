/** Tests clients that take as many resources as they can: others must still be served. Uses a real process and real sockets. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { percentile } from '../../support/percentile.ts';
import { runCli, type Server, startServer } from '../../support/process.ts';
import { waitedForCpuMs } from '../../support/scheduling.ts';
import { makeStore } from '../../support/store-file.ts';
import { figure } from '../../support/tier.ts';

interface Greedy {
  /** What a connection sends; `at`: its number. */
  bytes: (at: number) => string;
}

/** Opens connections that never read. */
async function openGreedy(port: number, count: number, { bytes }: Greedy): Promise<Socket[]> {
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const some = Array.from({ length: 100 }, () => connect({ port, host: '127.0.0.1' }).on('error', () => undefined));
    await Promise.all(some.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])));
    for (const [at, socket] of some.entries()) socket.pause().write(bytes(sockets.length + at));
    sockets.push(...some);
  }
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}

/**
 * Reads and writes with another key for `seconds`: the share that succeeds, the 99th percentile in milliseconds, and the number of requests.
 * The times are without those that the server waited for a CPU, which other programs used.
 */
async function serveOthers(
  { url, pid }: Server,
  key: string,
  seconds: number,
): Promise<{ served: number; p99: number; asked: number }> {
  const pool = new Pool(url, { connections: 8 });
  onTestFinished(() => pool.destroy());
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const times: number[] = [];
  let served = 0;
  const end = performance.now() + seconds * 1000;
  async function ask(method: 'GET' | 'POST'): Promise<void> {
    const path = method === 'GET' ? '/v1/pets?limit=20' : '/v1/pets';
    const body = method === 'GET' ? null : '{"name":"x","categoryId":1}';
    while (performance.now() < end) {
      const begun = performance.now() - waitedForCpuMs(pid);
      const status = await pool.request({ method, path, headers, body }).then(
        async (answer) => {
          await answer.body.dump();
          return answer.statusCode;
        },
        () => 0,
      );
      times.push(performance.now() - waitedForCpuMs(pid) - begun);
      if (status === 200 || status === 201) served += 1;
      await sleep(5);
    }
  }
  await Promise.all(Array.from({ length: 8 }, (_, index) => ask(index % 2 === 0 ? 'GET' : 'POST')));
  return { served: served / times.length, p99: percentile(times, 99), asked: times.length };
}

/** Starts a server. `key` is for the greedy client, `other` of another account for all others. */
async function start() {
  const { key, env, folder } = await makeStore();
  const makeKey = async (account: string) => {
    const { stdout } = await runCli(['key', 'create', '--account', account, '--name', 'k'], { env, folder });
    return /ast_test_\w+/.exec(stdout)?.[0] as string;
  };
  await runCli(['account', 'add', 'others'], { env, folder });
  const other = await makeKey('others');
  return { server: await startServer({ env }), key, other, makeKey };
}

const unfinishedCreate = (key: string) =>
  `POST /v1/pets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`;

const pipelined = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(10);

test.for<[what: string, count: number, bytes: (keys: string[], at: number) => string]>([
  ['1,000 bodies of one key that never end', 1000, ([key = '']) => unfinishedCreate(key)],
  [
    '2,500 bodies of 50 keys of an account that never end',
    2500,
    (keys, at) => unfinishedCreate(keys[at % 50] as string),
  ],
  ...['/v1/pets', '/docs'].map((path): [string, number, () => string] => [
    `1,500 connections with 10 unread pipelined GETs of ${path} each, without a key`,
    1500,
    () => pipelined(path),
  ]),
])('%s do not keep others out', { timeout: 60_000 }, async ([what, count, bytes]) => {
  const { server, makeKey, key, other } = await start();
  const keys = [key];
  while (count > 2000 && keys.length < 50) keys.push(await makeKey('zoo'));
  const sockets = await openGreedy(server.port, count, { bytes: (at) => bytes(keys, at) });
  if (count === 1000) expect(sockets.filter(({ destroyed }) => !destroyed).length).toBeGreaterThan(900);
  const { served, p99, asked } = await serveOthers(server, other, 4);
  figure(`${what}: ${(served * 100).toFixed(2)} % of ${asked} requests of others served, p99 ${Math.round(p99)} ms`);
  expect(served).toBeGreaterThanOrEqual(0.99);
  expect(p99).toBeLessThan(2500);
});

test('a body that arrives too slowly gets 408 long before the request timeout', async () => {
  const { server, key } = await start();
  const socket = connect(server.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const headers = `Host: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n`;
  socket.write(`POST /v1/pets HTTP/1.1\r\n${headers}\r\n`);
  const trickle = setInterval(() => socket.write(' '), 100);
  let answer = '';
  let bytes = 0;
  socket.on('data', (chunk) => {
    answer += chunk;
  });
  socket.on('error', () => undefined);
  await once(socket, 'close');
  clearInterval(trickle);
  bytes = socket.bytesWritten;
  expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  expect(answer).toContain('"code":"request_timeout"');
  // The request timeout alone would have allowed it nearly 9 s, that is 90 bytes.
  expect(bytes - headers.length).toBeLessThan(80);
}, 60_000);
