/** Tests deploy/nginx.conf, deploy/nginx-main.conf and deploy/nftables.conf under attack: a client with many connections can only slow itself. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { name, startNginx } from '../../support/nginx.ts';
import { startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import type { Responses, SlowClients } from '../../support/slow-clients.ts';
import { figure, patientMs } from '../../support/tier.ts';

type Nginx = Awaited<ReturnType<typeof startNginx>>;

const attacker = '127.0.0.9';

vi.setConfig({ testTimeout: patientMs });

beforeEach(({ skip }) => {
  const missing = ['nginx', 'openssl'].filter((tool) => spawnSync(tool, ['-h']).error);
  if (missing.length > 0) skip(`not installed: ${missing.join(', ')}`);
});

async function startBehind(options?: Parameters<typeof startNginx>[1]) {
  const server = await startServer({ env: { BASE_URL: `https://${name}/v1`, TRUST_PROXY: '127.0.0.1' } });
  const nginx = await startNginx({ production: server.port, staging: server.port }, options);
  return { nginx, key: await server.firstKey() };
}

/** Starts nginx in front of a server that responds in this way. */
async function startBefore(listener: RequestListener, inHttp = ''): Promise<Nginx> {
  const upstream = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => void upstream.close().closeAllConnections());
  await once(upstream, 'listening');
  const { port } = upstream.address() as AddressInfo;
  return startNginx({ production: port, staging: port }, { inHttp });
}

/** Starts slow clients in a thread of their own. Resolves when each has sent `head` once. */
async function attack({ https: port }: Nginx, slow: Omit<SlowClients, 'port' | 'localAddress'>) {
  const workerData = { ...slow, port, localAddress: attacker } satisfies SlowClients;
  const worker = new Worker(new URL('../../support/slow-clients.ts', import.meta.url), { workerData });
  onTestFinished(() => worker.terminate().then(() => undefined));
  await once(worker, 'message');
  /** Resolves to the number of responses by status when nginx has closed all connections. */
  const stop = async (): Promise<Responses> => {
    worker.postMessage('stop');
    const [responses] = await once(worker, 'message');
    return responses;
  };
  return { stop };
}

/** The statuses of 98 requests from 98 other addresses. */
async function askAsOthers({ raw }: Nginx, key: string): Promise<Record<string, number>> {
  const statuses: Record<string, number> = {};
  for (let at = 0; at < 98; at++) {
    const headers = `Host: ${name}\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n`;
    const answer = await raw(`GET /v1/pets HTTP/1.1\r\n${headers}\r\n`, `127.0.1.${at + 1}`);
    const status = answer.slice(0, 'HTTP/1.1 200'.length);
    statuses[status] = (statuses[status] ?? 0) + 1;
  }
  return statuses;
}

const allServed = { 'HTTP/1.1 200': 98 };

describe('others are served while one address', () => {
  test('sends a byte of a body every 4 s on 1,528 connections, of which 100 may wait', async () => {
    // As many as Debian's nginx has with two workers, and the 3 ports on which this one listens.
    const { nginx, key } = await startBehind({ connections: 1531 });
    const headers = `Host: ${name}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`;
    const head = `POST /v1/pets HTTP/1.1\r\n${headers}Content-Length: 60000\r\n\r\n`;
    const slow = { head, byte: ' ', everyMs: 4000, protocol: 'http/1.1', pauseMs: 200 } as const;
    const { stop } = await attack(nginx, { clients: 1528, ...slow });
    expect(await askAsOthers(nginx, key)).toEqual(allServed);
    const { 429: refused = 0, 408: late = 0, ...other } = await stop();
    figure(`nginx: slow bodies of one address: ${refused} got 429, ${late} got 408`);
    expect(other).toEqual({});
    expect(late).toBeGreaterThanOrEqual(100);
    expect(refused).toBeGreaterThan(1000);
  });

  test.each([
    ['headers', 'http/1.1', `GET /v1/pets HTTP/1.1\r\nHost: ${name}\r\nX: `, 'x'],
    // The preface, empty settings, and the beginning of a header block of 16 KiB (RFC 9113): nginx limits only the pauses in it.
    [
      'a header block of HTTP/2',
      'h2',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\x40\0\x01\x04\0\0\0\x01',
      '\x90',
    ],
  ] as const)('sends %s without an end on 1,600 connections', async (_what, protocol, head, byte) => {
    const { nginx, key } = await startBehind();
    await attack(nginx, { clients: 1600, head, byte, everyMs: 1000, protocol, pauseMs: 2000 });
    expect(await askAsOthers(nginx, key)).toEqual(allServed);
  });
});

test('a client that sends headers without an end is disconnected after 5 s', async () => {
  const { open, rawHttp } = await startBefore((_request, response) => void response.end());
  const begun = performance.now();
  const socket = open();
  const timer = setInterval(() => socket.write('x'), 500);
  socket.on('error', () => undefined);
  socket.write(`GET / HTTP/1.1\r\nHost: ${name}\r\nX: `);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await Promise.all([closed, rawHttp('GET / HTTP/1.1\r\n').catch(() => undefined)]);
  clearInterval(timer);
  expect(performance.now() - begun).toBeGreaterThan(4500);
  expect(performance.now() - begun).toBeLessThan(20_000);
});

describe('a body', () => {
  const head = (key: string) =>
    `POST /v1/pets HTTP/1.1\r\nHost: ${name}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nConnection: close\r\n`;

  test('is passed on as it arrives: without a valid key it is not awaited, and in parts it is one body', async () => {
    const { nginx, key } = await startBehind();
    const refused = await nginx.raw(`${head('none')}Content-Length: 60000\r\n\r\n`);
    expect(refused).toMatch(/^HTTP\/1\.1 401 /);
    const pet = '{"name":"Biscuit","categoryId":7}';
    const socket = nginx.open();
    socket.write(`${head(key)}Content-Length: ${pet.length}\r\n\r\n`);
    for (const part of [pet.slice(0, 5), pet.slice(5, 10), pet.slice(10)]) {
      await sleep(300);
      socket.write(part);
    }
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 201 /);
  });
});

describe('the limits', () => {
  /** nginx takes the address of a client from this header. */
  const fromHeader = 'set_real_ip_from 127.0.0.1; real_ip_header X-Address;';
  const refusal = /^HTTP\/1\.1 429 [\s\S]*\r\nRetry-After: 1\r\n[\s\S]*"code":"rate_limited"/;

  test.each([
    ['an IPv4 address', (_: number) => '192.0.2.1', '192.0.2.2'],
    ['a /64 network', (at: number) => `2001:db8:1:2::${at.toString(16)}`, '2001:db8:1:3::1'],
    ['a /64 network with zeros', (at: number) => `2001:db8::${at + 1}:0:0:1`, '2001:db8:0:1::1'],
    ['an IPv4 address on an IPv6 socket', (_: number) => '::ffff:192.0.2.1', '::ffff:192.0.2.2'],
  ])('count %s as one client, which may have 100 requests at once', async (_what, address, other) => {
    let waiting = 0;
    const gate = Promise.withResolvers<void>();
    const { raw } = await startBefore(async (_request, response) => {
      waiting += 1;
      await gate.promise;
      response.end();
    }, fromHeader);
    const ask = (from: string) =>
      raw(`GET / HTTP/1.1\r\nHost: ${name}\r\nX-Address: ${from}\r\nConnection: close\r\n\r\n`);
    const held = Array.from({ length: 100 }, (_, at) => ask(address(at)));
    await expect.poll(() => waiting, { timeout: 10_000 }).toBe(100);
    expect(await ask(address(100))).toMatch(refusal);
    const others = ask(other);
    await expect.poll(() => waiting, { timeout: 10_000 }).toBe(101);
    gate.resolve();
    for (const answer of await Promise.all([...held, others])) expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('allow an address 500 requests a second, after the first 1,000, and others theirs', async () => {
    const { raw } = await startBefore((_request, response) => void response.end());
    const get = `GET / HTTP/1.1\r\nHost: ${name}\r\n\r\n`;
    // A connection serves 1,000 requests.
    const ask = () => raw(get.repeat(900) + get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'), attacker);
    const begun = performance.now();
    const answers = (await Promise.all([ask(), ask(), ask(), ask()])).join('');
    const allowed = 1001 + ((performance.now() - begun) / 1000) * 500;
    const served = answers.split('HTTP/1.1 200 ').length - 1;
    expect(served).toBeGreaterThanOrEqual(1000);
    expect(served).toBeLessThanOrEqual(allowed);
    expect(answers.slice(answers.indexOf('HTTP/1.1 429 '))).toMatch(refusal);
    expect(await raw(get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'), '127.0.0.8')).toMatch(
      /^HTTP\/1\.1 200 /,
    );
  });
});

/** Listens on the port of nginx, opens 210 connections from each list of addresses in turn, and prints how many were accepted. */
const connector = `
  const net = require('node:net');
  const open = (host, localAddress) => new Promise((resolve) => {
    const socket = net.connect({ host, port: 443, localAddress });
    socket.on('connect', () => resolve(1)).on('error', () => resolve(0));
  });
  net.createServer(() => undefined).listen(443, '::', async () => {
    for (const list of process.argv.slice(1)) {
      const addresses = list.split(',');
      const host = list.includes(':') ? '::1' : '127.0.0.1';
      let accepted = 0;
      for (let at = 0; at < 210; at++) accepted += await open(host, addresses[at % addresses.length]);
      console.log(accepted);
    }
    process.exit();
  });
`;

test('deploy/nftables.conf allows a client 200 connections', ({ skip }) => {
  const own = ['--user', '--map-root-user', '--net', 'sh', '-ec'];
  const addresses = ['2001:db8:1:2::1', '2001:db8:1:2::2', '2001:db8:1:3::1'];
  const script = [
    'ip link set lo up',
    ...addresses.map((address) => `ip -6 address add ${address}/128 dev lo nodad`),
    // Loading it twice changes nothing.
    `nft -f ${projectFolder}deploy/nftables.conf`,
    `nft -f ${projectFolder}deploy/nftables.conf`,
    'exec "$@"',
  ];
  if (spawnSync('unshare', [...own, 'nft list ruleset']).status !== 0)
    return skip('nft is not installed, or creating a network is not permitted');
  const lists = ['127.0.0.1', '127.0.0.2', addresses.slice(0, 2).join(), addresses[2] as string];
  const asked = ['sh', process.execPath, '-e', connector, ...lists];
  const { stdout, stderr } = spawnSync('unshare', [...own, script.join('\n'), ...asked], { encoding: 'utf8' });
  expect([stdout.trim().split('\n'), stderr]).toEqual([['200', '200', '200', '200'], '']);
});
