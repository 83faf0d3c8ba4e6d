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
  /** What a connection sends, and from which address; `at`: its number. */
  bytes: (at: number) => string;
  from?: (at: number) => string;
}

/** Opens connections that never read. */
async function openGreedy(port: number, count: number, { bytes, from = () => '127.0.0.1' }: Greedy): Promise<Socket[]> {
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const some = Array.from({ length: 100 }, (_, at) =>
      connect({ port, host: '127.0.0.1', localAddress: from(sockets.length + at) }).on('error', () => undefined),
    );
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

function report(what: string, { served, p99, asked }: Awaited<ReturnType<typeof serveOthers>>): void {
  figure(`${what}: ${(served * 100).toFixed(2)} % of ${asked} requests of others served, p99 ${Math.round(p99)} ms`);
}

test('1,000 bodies of one key that never end do not keep others out', async () => {
  const { server, key, other } = await start();
  const sockets = await openGreedy(server.port, 1000, { bytes: () => unfinishedCreate(key) });
  expect(sockets.filter(({ destroyed }) => !destroyed).length).toBeGreaterThan(900);
  const found = await serveOthers(server, other, 4);
  report('1,000 bodies that never end', found);
  expect(found.served).toBeGreaterThanOrEqual(0.99);
  expect(found.p99).toBeLessThan(2500);
}, 60_000);

test('bodies that never end, with all the keys that an account can have, do not keep others out', async () => {
  const { server, makeKey, key, other } = await start();
  const keys = [key];
  while (keys.length < 50) keys.push(await makeKey('zoo'));
  await openGreedy(server.port, 2500, { bytes: (at) => unfinishedCreate(keys[at % 50] as string) });
  const found = await serveOthers(server, other, 4);
  report('2,500 bodies of 50 keys of an account that never end', found);
  expect(found.served).toBeGreaterThanOrEqual(0.99);
  expect(found.p99).toBeLessThan(2500);
}, 60_000);

test('half-finished forms from 1,000 addresses do not keep requests with a key out', async () => {
  const { server, other } = await start();
  const form =
    'POST /account/sign-in HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n' +
    'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nname=';
  const from = (at: number) => `127.0.${10 + (Math.floor(at / 100) % 10)}.${1 + (at % 100)}`;
  await openGreedy(server.port, 4000, { bytes: () => form, from });
  const found = await serveOthers(server, other, 4);
  report('4,000 half-finished forms from 1,000 addresses', found);
  expect(found.served).toBeGreaterThanOrEqual(0.99);
  expect(found.p99).toBeLessThan(2500);
}, 60_000);

test.for(['/v1/pets', '/openapi.json', '/docs'])(
  '1,500 connections with 10 unread pipelined GETs of %s each, without a key, do not keep others out',
  { timeout: 60_000 },
  async (path) => {
    const { server, other } = await start();
    const bytes = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(10);
    await openGreedy(server.port, 1500, { bytes: () => bytes });
    const found = await serveOthers(server, other, 4);
    report(`1,500 connections x 10 unread GETs of ${path}`, found);
    expect(found.served).toBeGreaterThanOrEqual(0.99);
    expect(found.p99).toBeLessThan(2500);
  },
);

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
