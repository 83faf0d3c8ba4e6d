/** Tests of the address of a client, and of the network that limits count it as. */
import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { networkOf, proxiesOf } from '../../../src/http/addresses.ts';
import { launchServer } from '../../support/process.ts';

test.for([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::9', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['::192.0.2.7', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  // The client disconnected: its address is unknown.
  [undefined, ''],
] as const)('the network of %s is %s', ([address, network]) => {
  expect(networkOf(address)).toBe(network);
});

test.for([
  ['127.0.0.1', true],
  ['::ffff:127.0.0.1', true],
  ['127.0.0.2', false],
  ['10.1.2.3', true],
  ['::ffff:10.1.2.3', true],
  ['11.1.2.3', false],
  ['2001:db8:1::7', true],
  ['2001:DB8:1:0:0:0:0:7', true],
  ['2001:db8:2::7', false],
  ['fe80::1%eth0', true],
  // What a client wrote, or nothing.
  ['127.1', false],
  ['0x7f000001', false],
  ['unknown', false],
  ['[::1]:80', false],
  ['', false],
] as const)('%s is the address of a trusted proxy: %s', ([address, trusted]) => {
  const isProxy = proxiesOf(['127.0.0.1', '10.0.0.0/8', '2001:db8:1::/48', 'fe80::/10']);
  expect(isProxy(address)).toBe(trusted);
  expect(proxiesOf([])(address)).toBe(false);
});

const addresses = (network: string, count: number) => Array.from({ length: count }, (_, at) => `${network}::${at + 1}`);

/**
 * Opens a connection from each address in turn, keeps all of them open, and prints the status of each response. It runs in the server's
 * network, in which these addresses exist.
 */
const client = `
  const net = require('node:net');
  const [port, ...addresses] = process.argv.slice(1);
  const ask = (localAddress) => new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '::1', localAddress }).on('error', reject);
    socket.once('data', (data) => resolve(data.toString().split(' ')[1]));
    socket.write('GET /v1/pets HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n');
  });
  (async () => {
    for (const address of addresses) console.log(await ask(address));
    process.exit();
  })();
`;

test('MAX_CONNECTIONS: the addresses of one /64 network share the places of one client', async ({ skip }) => {
  const own = ['unshare', '--user', '--map-root-user', '--net'];
  const [greedy, other] = [addresses('2001:db8:1:2', 8), addresses('2001:db8:1:3', 2)];
  const setUp = [...greedy, ...other].map((address) => `ip -6 address add ${address}/128 dev lo nodad`);
  const network = [...own, 'sh', '-ec', ['ip link set lo up', ...setUp, 'exec "$@"'].join('\n'), 'sh'];
  if (spawnSync(network[0] as string, [...network.slice(1), 'true']).status !== 0)
    return skip('creating a network is not permitted');
  const server = launchServer({ under: network, env: { HOST: '::', MAX_CONNECTIONS: '4' } });
  const [, port = ''] = await server.seen('stdout', /Server listening at http:\/\/\S+:(\d+)"/);
  const inside = ['--target', String(server.pid), '--user', '--net', '--preserve-credentials'];
  const asked = [process.execPath, '-e', client, port, ...greedy, ...other];
  const { stdout } = await promisify(execFile)('nsenter', [...inside, ...asked]);
  expect(stdout.trim().split('\n')).toEqual([...Array(4).fill('401'), ...Array(4).fill('503'), '401', '401']);
});
